// The row of a key in a transaction that has locked it.

package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// lockedKey is the row of a key within a transaction that has locked it. Every change of the
// queue or the tombstones of a key locks the row, so all of them have an order, except that the poller
// extends places without the row. The transactions of Store.enter and Store.leave are single statements.
//
// A row is in one of these states. now is the clock of the database.
//
//	free      owner is empty
//	held      owner is that of the lease, expires >= now
//	expired   owner is that of the lease, expires < now: as free
//	kept      owner is keptOwner, expires >= now: taken by nobody, after a release with Keep
//
// queuedUntil and refusedUntil are instants until which the other tables may have rows of the
// key. Statements that see only the row of the lock leave a key alone that has such rows.
type lockedKey struct {
	store *Store
	tx    transaction
	key   string
	now   int64 // ms
	us    int64
	floor int64 // of new tokens

	kind                      int64
	owner                     string
	token, expires            int64
	metadata                  []byte
	queuedUntil, refusedUntil int64

	changed bool     // save has something to write
	regrant bool     // save writes a new token
	wake    []string // owners whose calls of Wait must ask, after the commit
}

// first is the first live place of a queue.
type first struct {
	place, expires int64
	owner, channel string
	metadata       []byte
}

// locked runs f in a transaction that has locked the row of a key, and commits. If there is no
// row, it makes one if create is true, and otherwise returns errNoRow.
func (s *Store) locked(ctx context.Context, c *sql.Conn, key string, create bool, f func(k *lockedKey) error) error {
	tx, err := s.dialect.begin(ctx, c)
	if err != nil {
		return err
	}
	defer tx.rollback()
	k := &lockedKey{store: s, tx: tx, key: key}
	err = k.lock(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		if !create {
			return errNoRow
		}
		// A Sweep may delete the new row before it is locked.
		for try := 0; try < 10 && errors.Is(err, sql.ErrNoRows); try++ {
			if _, err = tx.ExecContext(ctx, s.texts.createRow, []byte(key)); err == nil {
				err = k.lock(ctx)
			}
		}
	}
	if err != nil {
		return err
	}
	if k.kind != 0 {
		return driver.ErrWrongType
	}
	if err := f(k); err != nil {
		return err
	}
	if err := k.save(ctx); err != nil {
		return err
	}
	if err := tx.commit(ctx); err != nil {
		return err
	}
	s.wakeUp(k.wake)
	return nil
}

var errNoRow = errors.New("sqlstore: the key has no row")

// lock locks the row and reads it.
func (k *lockedKey) lock(ctx context.Context) error {
	var owner []byte
	var fit bool // false only in MySQL
	err := k.tx.QueryRowContext(ctx, k.store.texts.lockRow, []byte(k.key)).Scan(&k.kind, &owner, &k.token, &k.expires,
		&k.metadata, &k.queuedUntil, &k.refusedUntil, &k.us, &k.floor, &fit)
	k.owner, k.now = string(owner), k.us/1000
	if err == nil && !fit {
		return mySQL{}.unfit(ctx, k.tx)
	}
	return err
}

// save writes the row.
func (k *lockedKey) save(ctx context.Context) error {
	if !k.changed {
		return nil
	}
	_, err := k.tx.ExecContext(ctx, k.store.texts.saveRow, []byte(k.owner), k.token, k.expires, k.metadata,
		k.queuedUntil, k.refusedUntil, []byte(k.key))
	if err != nil || !k.regrant {
		return err
	}
	return k.store.dialect.granted(ctx, k.tx, k.store.texts, []byte(k.key), k.token)
}

// isTaken reports whether the lock is held or kept.
func (k *lockedKey) isTaken() bool { return k.owner != "" && k.expires >= k.now }

// isHeldBy reports whether an owner holds the lock.
func (k *lockedKey) isHeldBy(owner string) bool { return k.owner == owner && k.isTaken() }

// left returns the ms until the lock may be granted.
func (k *lockedKey) left() int64 { return max(k.expires-k.now, 1) }

// isGuarded reports whether an open transaction keeps the lock from all but its last owner. If
// not, calls of Guard wait until this transaction ends.
func (k *lockedKey) isGuarded(ctx context.Context) (bool, error) {
	ok, err := k.store.dialect.unguarded(ctx, k.tx, k.store.texts, []byte(k.key))
	return !ok, err
}

// grant gives the lock to an owner until an instant, with a new token. The lock must not be
// guarded.
func (k *lockedKey) grant(owner string, until int64, metadata []byte) {
	k.token = max(k.token+1, k.us, k.floor+1)
	k.owner, k.expires, k.metadata = owner, until, metadata
	k.changed, k.regrant = true, true
}

// extend moves the end of the lease to an instant, unless it is later already.
func (k *lockedKey) extend(until int64) {
	if until > k.expires {
		k.expires, k.changed = until, true
	}
}

// free makes the lock free.
func (k *lockedKey) free() {
	k.owner, k.expires, k.metadata = "", k.now, nil
	k.changed = true
}

// look returns the first live place of the queue, nil if there is none, and whether an owner
// was given up.
func (k *lockedKey) look(ctx context.Context, owner string) (next *first, refused bool, err error) {
	if k.queuedUntil < k.now && k.refusedUntil < k.now {
		return nil, false, nil
	}
	var tombstones int64
	var place, expires sql.NullInt64
	var nextOwner, metadata []byte
	var channel sql.NullString
	err = k.tx.QueryRowContext(ctx, k.store.texts.look, []byte(k.key), []byte(owner), k.now, []byte(k.key), k.now).
		Scan(&tombstones, &place, &nextOwner, &expires, &metadata, &channel)
	if err != nil {
		return nil, false, err
	}
	if place.Valid {
		next = &first{place: place.Int64, expires: expires.Int64, owner: string(nextOwner), channel: channel.String, metadata: metadata}
	}
	return next, tombstones > 0, nil
}

// grantTo gives the lock to the first live place, for the rest of it, and notifies its owner. After a step
// back of the clock the place of a dead waiter seems to last longer than any place does.
func (k *lockedKey) grantTo(ctx context.Context, next *first) error {
	k.grant(next.owner, min(next.expires, k.now+ms(place)), next.metadata)
	if err := k.removePlaces(ctx, next); err != nil {
		return err
	}
	return k.tell(ctx, next)
}

// removePlaces removes a place, and those before it, which have expired.
func (k *lockedKey) removePlaces(ctx context.Context, next *first) error {
	_, err := k.tx.ExecContext(ctx, k.store.texts.removePlaces, []byte(k.key), next.place, next.place, []byte(next.owner))
	return err
}

// tell makes the waiter of a place ask.
func (k *lockedKey) tell(ctx context.Context, next *first) error {
	k.wake = append(k.wake, next.owner)
	return k.store.notify(ctx, k.tx, next)
}

// notify sends the message that makes the waiter of a place ask, if it listens.
func (s *Store) notify(ctx context.Context, c querier, next *first) error {
	if next.channel == "" || s.texts.notify == "" {
		return nil
	}
	_, err := c.ExecContext(ctx, s.texts.notify, next.channel, messageFor(next.owner))
	return err
}

// nextAfter returns the first live place of the queue that is not one of a former holder, and removes that. An
// owner that acquired the lock after queuedUntil had passed, although its place lived, still has it.
func (k *lockedKey) nextAfter(ctx context.Context, holder string) (*first, error) {
	for {
		next, _, err := k.look(ctx, "")
		if err != nil || next == nil || next.owner != holder {
			return next, err
		}
		if err := k.removePlaces(ctx, next); err != nil {
			return nil, err
		}
	}
}

// handOver gives the lock to the first waiter, or makes it free. If it is guarded it becomes
// free, and the first waiter asks until the guard has ended.
func (k *lockedKey) handOver(ctx context.Context) error {
	next, err := k.nextAfter(ctx, k.owner)
	switch {
	case err != nil:
		return err
	case next == nil:
		k.queuedUntil = 0
		k.free()
		return nil
	}
	guarded, err := k.isGuarded(ctx)
	switch {
	case err != nil:
		return err
	case guarded:
		k.free()
		return k.tell(ctx, next)
	}
	return k.grantTo(ctx, next)
}

// setPlace gives an owner a place at the end of the queue, or extends the one it has, and
// returns how many live places are before it.
func (k *lockedKey) setPlace(ctx context.Context, r driver.Request, length int64, channel string) (ahead int, err error) {
	end := k.now + length
	_, err = k.tx.ExecContext(ctx, k.store.texts.setPlace, []byte(k.key), []byte(r.Owner), end, metadataOf(r), channel, []byte(k.key))
	if err != nil {
		return 0, err
	}
	if k.queuedUntil < end { // later than needed, so that most requests need not write it
		k.queuedUntil, k.changed = end+3*length, true
	}
	err = k.tx.QueryRowContext(ctx, k.store.texts.ahead, []byte(k.key), k.now, []byte(k.key), []byte(r.Owner)).Scan(&ahead)
	return ahead, err
}

// giveUp refuses an owner for the time of a tombstone.
func (k *lockedKey) giveUp(ctx context.Context, owner string) error {
	end := k.now + ms(tombstone)
	if _, err := k.tx.ExecContext(ctx, k.store.texts.setTombstone, []byte(k.key), []byte(owner), end); err != nil {
		return err
	}
	k.refusedUntil, k.changed = max(k.refusedUntil+1, end), true // never the same twice, see enter
	_, err := k.tx.ExecContext(ctx, k.store.texts.removeTombstones, []byte(k.key), k.now)
	return err
}

// ask decides a request in a transaction. With a place above 0, in ms, a request that is not
// granted enters the queue, and is notified of a grant on the channel.
//
// Many waiters may come at once, and the renewals of the holder wait for the row with them. So a waiter enters
// without a transaction if it can. If it finds the lock taken when it has the row, it lets go of it.
func (s *Store) ask(ctx context.Context, c *sql.Conn, r driver.Request, place int64, channel string) (a answer, err error) {
	enters := place > 0 && s.texts.enter != ""
	for again := false; ; again = true {
		if enters {
			if a, err = s.enter(ctx, c, r, place, channel); err != nil || a.entered {
				return a, err
			}
		}
		err = s.locked(ctx, c, r.Key, true, func(k *lockedKey) error {
			if enters && !again && k.isTaken() && k.owner != r.Owner {
				return errTaken
			}
			a, err = k.decide(ctx, r, place, channel)
			return err
		})
		if !errors.Is(err, errTaken) {
			return a, err
		}
	}
}

var errTaken = errors.New("sqlstore: the lock is taken")

// enter gives an owner a place of some ms at the end of the queue of a lock that another one has, or extends its
// place. It does nothing if the lock is not taken or the owner may have been given up.
//
// Each statement is a transaction, so the row of the lock is not locked during a round trip. The one that makes
// the place locks the row first and looks at its newest version. So a transaction that releases the lock comes
// before it, and there is no place, or after it and sees the place. The row states already that the key
// has places, for longer than this one lasts. It also shows, by refused_until, that nobody was given up since the
// first statement, which looks for a tombstone of the owner. The number of the place is above those of all
// places that were made before the first statement.
func (s *Store) enter(ctx context.Context, c *sql.Conn, r driver.Request, length int64, channel string) (a answer, err error) {
	key, owner, t := []byte(r.Key), []byte(r.Owner), s.texts
	var queuedLeft, number, refusedUntil int64
	err = c.QueryRowContext(ctx, t.queue, key, key, owner, key, owner).Scan(&queuedLeft, &number, &refusedUntil)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return answer{}, nil
	case err != nil:
		return answer{}, err
	case queuedLeft < 3*length:
		if _, err := c.ExecContext(ctx, t.keepQueue, 4*length, key, 3*length); err != nil {
			return answer{}, err
		}
	}
	n, err := affected(c.ExecContext(ctx, t.enter, number, owner, length, metadataOf(r), channel, key, owner, 2*length, refusedUntil))
	switch {
	case err != nil && s.dialect.faultOf(err) == exists: // another place has the number
		return answer{}, nil
	case err != nil || n == 0:
		return answer{}, err
	}
	a.entered = true
	err = c.QueryRowContext(ctx, t.entered, key, key, key, key, owner).Scan(&a.left, &a.age, &a.ahead)
	return a, err
}

func (k *lockedKey) decide(ctx context.Context, r driver.Request, place int64, channel string) (answer, error) {
	until := k.now + ms(r.TTL)
	if k.isHeldBy(r.Owner) {
		k.extend(until)
		return answer{granted: true, token: k.token}, nil
	}
	next, refused, err := k.look(ctx, r.Owner)
	switch {
	case err != nil:
		return answer{}, err
	case refused:
		return answer{}, errGivenUp
	}
	var a answer
	if k.isTaken() {
		a.left = k.left()
	} else if a.guarded, err = k.isGuarded(ctx); err != nil {
		return answer{}, err
	}
	switch {
	case a.left > 0 || a.guarded:
	case next == nil:
		k.queuedUntil = 0
		k.grant(r.Owner, until, metadataOf(r))
		return answer{granted: true, token: k.token}, nil
	case next.owner == r.Owner:
		k.grant(r.Owner, until, next.metadata)
		return answer{granted: true, token: k.token}, k.removePlaces(ctx, next)
	default:
		if err := k.grantTo(ctx, next); err != nil {
			return answer{}, err
		}
		if place == 0 {
			return answer{}, nil // only waiters were in the way
		}
		a.left = k.left()
	}
	if place > 0 {
		a.entered, a.age = true, k.us-k.token
		a.ahead, err = k.setPlace(ctx, r, place, channel)
	}
	return a, err
}

// metadataOf returns the metadata of a request as the value of a column.
func metadataOf(r driver.Request) []byte {
	if m := r.Metadata(); m != "" {
		return []byte(m)
	}
	return nil
}

// messageFor returns the text that makes an owner ask. It does not show the owner.
func messageFor(owner string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "leasewheel message %s", owner))
	return hex.EncodeToString(sum[:12])
}
