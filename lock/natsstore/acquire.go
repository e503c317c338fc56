// Acquire, and the state of a lease.

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// leaseState is the State of a lease: what the next renewal must know. A lease that was imported has
// none, and its next renewal reads the lock first.
type leaseState struct {
	owner string
	token uint64

	saving chan struct{} // of a lease that is Stateful: holds an element during a save
	saved  uint64        // the number of the last save that was answered; the call that saves owns it

	mu     sync.Mutex // guards all fields below
	seq    uint64     // of the last message
	meta   []byte     // its metadata
	ends   time.Time  // the lease lasts until then at least
	unsure bool       // saves that this state does not know may have been executed, or may still be

	renewals int           // under way
	renewed  chan struct{} // closed when no renewal is under way any more
}

// stateOf returns the state of a lease, nil if it has none that belongs to it.
func stateOf(l driver.Lease) *leaseState {
	state, _ := l.State.(*leaseState)
	if state == nil || state.owner != l.Owner || state.token != l.Token {
		return nil
	}
	return state
}

// stored records that the server has stored the message seq after another one. It was sent at an
// instant with a TTL. The state may know a later message, whose answer was read first.
func (l *leaseState) stored(after, seq uint64, meta []byte, sent time.Time, ttl time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > l.seq {
		l.unsure = l.unsure || after != l.seq
		l.seq, l.meta = seq, meta
	}
	if ends := sent.Add(ttl); ends.After(l.ends) {
		l.ends = ends
	}
}

// rest returns a time that is not less than what is left of the lease, whose last message is cur. It
// does not use the clock of the server, which this process may know wrong: if a message came that
// the state does not know, or if there is no state, it is the whole TTL of that message.
func (l *leaseState) rest(cur entry) time.Duration {
	ttl := time.Duration(cur.TTL) * time.Millisecond
	if l == nil {
		return ttl
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq != cur.seq {
		return ttl
	}
	return min(max(time.Until(l.ends), time.Millisecond), ttl)
}

// next returns the sequence after which the next message must come, its metadata, and its TTL, which
// is not less than what is left of the lease.
func (l *leaseState) next(ttl time.Duration) (seq uint64, meta []byte, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.meta, max(ttl, time.Until(l.ends))
}

// last returns the sequence of the last message, and whether all saves after it are known.
func (l *leaseState) last() (seq uint64, sure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, !l.unsure
}

// doubt records that a save may have been executed, or may still be.
func (l *leaseState) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsure = true
}

// trust records that the saves up to the message seq are known.
func (l *leaseState) trust(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq == seq {
		l.unsure = false
	}
}

// beginRenewal records that a renewal is under way, until endRenewal is called. Only saves ask for it.
func (l *leaseState) beginRenewal() {
	if l.saving == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewals == 0 {
		l.renewed = make(chan struct{})
	}
	l.renewals++
}

func (l *leaseState) endRenewal() {
	if l.saving == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewals--; l.renewals == 0 {
		close(l.renewed)
	}
}

// awaitRenewals blocks until the renewals under way have ended, or until ctx ends.
func (l *leaseState) awaitRenewals(ctx context.Context) error {
	l.mu.Lock()
	renewed := l.renewed
	l.mu.Unlock()
	if renewed == nil { // there was none yet
		return nil
	}
	return basic.Await(ctx, renewed)
}

// Acquire implements [driver.Store].
//
// The message that takes a free lock has an id that follows from the owner. The server stores a
// message with the same id once within two minutes, and Release uses that to keep out a late request.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	var l driver.Lease
	err := s.call(ctx, r.Mode, "acquire", func(ctx context.Context) (err error) {
		if l, err = s.acquire(ctx, r, entry{}); err != nil {
			return notSent(err)
		}
		l, err = s.withState(ctx, l)
		return err
	})
	return l, err
}

// acquire is Acquire of a lock whose last message is known to be cur, which is free. It may be wrong:
// the server refuses the request then, and acquire reads the lock.
func (s *Store) acquire(ctx context.Context, r driver.Request, cur entry) (driver.Lease, error) {
	stored := 0 // takes of this owner
	for range maxConflicts {
		l, err := s.take(ctx, r, cur, takeID(r.Owner, stored))
		if !errors.Is(err, errConflict) && !errors.Is(err, errDuplicate) {
			return l, err
		}
		if errors.Is(err, errDuplicate) {
			given, err := s.wasGivenUp(ctx, r.Owner)
			if err != nil {
				return driver.Lease{}, err
			}
			if given {
				return driver.Lease{}, fmt.Errorf("the owner was released before: %w", driver.ErrNotAcquired)
			}
			stored++ // the owner held the lock before
		}
		if cur, err = s.last(ctx, r.Key); err != nil {
			return driver.Lease{}, err
		}
		switch {
		case cur.heldBy(r.Owner):
			l, err := s.extend(ctx, r, cur)
			if !errors.Is(err, errConflict) {
				return l, err
			}
		case !cur.isFree():
			return driver.Lease{}, &driver.HeldError{Key: r.Key, ExpiresIn: cur.left(s.serverNow(ctx))}
		}
	}
	return driver.Lease{}, fmt.Errorf("%d attempts met other requests: %w", maxConflicts, driver.ErrUnavailable)
}

// takeID returns the id of the message that takes a lock for an owner after the server has stored
// some of these. One call uses maxConflicts of them at most.
func takeID(owner string, stored int) string {
	if stored == 0 {
		return owner
	}
	return fmt.Sprintf("%s#%d", owner, stored)
}

// errDuplicate means that the server has stored a message with the same id before.
var errDuplicate = errors.New("the request was executed before")

// take publishes the message that grants a free lock.
func (s *Store) take(ctx context.Context, r driver.Request, cur entry, id string) (driver.Lease, error) {
	rec := record{State: held, Owner: r.Owner, TTL: r.TTL.Milliseconds(), Metadata: []byte(r.Metadata())}
	sent := time.Now()
	ack, err := s.publish(ctx, s.message(r.Key, rec, r.TTL, cur.seq, id))
	switch {
	case err != nil:
		return driver.Lease{}, err
	case ack.Duplicate:
		return driver.Lease{}, errDuplicate
	}
	return lease(r, ack.Sequence, 0, ack, rec, sent), nil
}

// extend renews the lease of a repeated Acquire.
func (s *Store) extend(ctx context.Context, r driver.Request, cur entry) (driver.Lease, error) {
	rec := cur.record
	ttl := max(r.TTL, (*leaseState)(nil).rest(cur))
	rec.TTL = ttl.Milliseconds()
	sent := time.Now()
	ack, err := s.publish(ctx, s.message(r.Key, rec, ttl, cur.seq, ""))
	if err != nil {
		return driver.Lease{}, err
	}
	return lease(r, cur.Token, cur.seq, ack, rec, sent), nil
}

// lease returns a lease whose last message came after another one of the lease, or after none.
func lease(r driver.Request, token, after uint64, ack *jetstream.PubAck, rec record, sent time.Time) driver.Lease {
	state := &leaseState{owner: r.Owner, token: token}
	if r.Stateful() {
		state.saving = make(chan struct{}, 1)
	}
	state.stored(after, ack.Sequence, rec.Metadata, sent, r.TTL)
	return driver.Lease{Request: r, Token: token, Sent: sent, State: state}
}

// wasGivenUp reports whether the owner has a tombstone.
func (s *Store) wasGivenUp(ctx context.Context, owner string) (bool, error) {
	_, err := s.stream.GetLastMsgForSubject(ctx, s.tombstone(owner))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	return false, fmt.Errorf("read the tombstone: %w", err)
}
