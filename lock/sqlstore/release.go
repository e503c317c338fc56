// Release and ReleaseAll.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Release implements [driver.Store]. A lock with waiters goes to the first of them whose place
// has not expired, in the transaction that ends the lease. Otherwise, in the optimistic way, a
// release is one statement.
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	if err := checkMode(l.Mode); err != nil {
		return err
	}
	if !isOwner(l.Owner) || l.Key == "" || len(l.Key) > driver.MaxKeyLen {
		return fmt.Errorf("sqlstore: release: %w: no such key or owner", driver.ErrNotHeld)
	}
	err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
		if l.Token == 0 && !l.Unanswered && s.texts.leave != "" { // of a waiter
			switch left, err := s.leave(ctx, c, l); {
			case err != nil:
				return err
			case left:
				return driver.ErrNotHeld
			}
		}
		if !s.options.Pessimistic && !l.Unanswered {
			keep := ms(l.Keep())
			n, err := s.dialect.update(ctx, c, s.texts.release, keep, keep, []byte(l.Key), []byte(l.Owner))
			if err != nil || n > 0 {
				return err
			}
		}
		return s.releaseLocked(ctx, c, l)
	})
	if errors.Is(err, driver.ErrNotHeld) {
		return err
	}
	return failed("release", err)
}

// ReleaseAll implements [driver.Store]. It uses few connections at one time.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	return storekit.Each(len(batch), awaitedRows, func(i int) error {
		out[i] = s.Release(ctx, batch[i])
		return nil
	})
}

// leave removes the place of an owner in the queue of a lock that another one has, and reports whether it has.
// Like enter, it keeps the row of the lock locked for one statement only. A release before that statement may
// have granted the lock to the owner, and a later one does not see the place.
func (s *Store) leave(ctx context.Context, c *sql.Conn, l driver.Lease) (left bool, err error) {
	key, owner, t := []byte(l.Key), []byte(l.Owner), s.texts
	var number int64
	err = c.QueryRowContext(ctx, t.placeOf, key, owner).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := affected(c.ExecContext(ctx, t.leave, key, owner, owner))
	if err != nil || n == 0 {
		return false, err
	}
	var next first
	var nextOwner []byte
	err = c.QueryRowContext(ctx, t.first, key).Scan(&next.place, &nextOwner, &next.channel)
	if errors.Is(err, sql.ErrNoRows) || err == nil && next.place < number {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	next.owner = string(nextOwner)
	s.wakeUp([]string{next.owner})
	return true, s.notify(ctx, c, &next)
}

// releaseLocked releases a lease in a transaction. It returns driver.ErrNotHeld if the owner did
// not hold the lock; then it has removed its place in the queue.
func (s *Store) releaseLocked(ctx context.Context, c *sql.Conn, l driver.Lease) error {
	held := false
	// The time to keep it is counted from an instant before the transaction reads the clock of the
	// database. Otherwise the lock would become free too early, by the time in between.
	keep := ms(l.Keep())
	err := s.locked(ctx, c, l.Key, l.Unanswered, func(k *lockedKey) (err error) {
		if l.Unanswered {
			if err := k.giveUp(ctx, l.Owner); err != nil {
				return err
			}
		}
		held = k.isHeldBy(l.Owner)
		switch {
		case held && keep > 0:
			return k.keep(ctx, keep)
		case held:
			return k.handOver(ctx)
		}
		return k.leave(ctx, l.Owner)
	})
	switch {
	case errors.Is(err, errNoRow):
		return driver.ErrNotHeld
	case err == nil && !held:
		return driver.ErrNotHeld
	}
	return err
}

// keep ends the lease, and keeps the lock taken by nobody for some ms. The first waiter must
// learn when it becomes free.
func (k *lockedKey) keep(ctx context.Context, keep int64) error {
	holder := k.owner
	k.owner, k.expires, k.metadata, k.changed = keptOwner, k.now+keep, nil, true
	next, err := k.nextAfter(ctx, holder)
	if err != nil || next == nil {
		return err
	}
	return k.tell(ctx, next)
}

// leave removes the place of an owner. Its successor must know that it is the first, because
// only the first waiter notices at once that a lease has expired.
func (k *lockedKey) leave(ctx context.Context, owner string) error {
	before, _, err := k.look(ctx, owner)
	if err != nil {
		return err
	}
	if _, err := k.tx.ExecContext(ctx, k.store.texts.removePlace, []byte(k.key), []byte(owner)); err != nil {
		return err
	}
	if before == nil || before.owner != owner {
		return nil
	}
	next, _, err := k.look(ctx, owner)
	if err != nil || next == nil {
		return err
	}
	return k.tell(ctx, next)
}
