// Package memstore keeps locks in the memory of one process. It is meant for tests,
// examples, and programs that want the lock API without a server. It supports all modes
// and passes the same contract tests as the stores on servers.
//
// The section [test it] of the guide shows how to test code that uses locks.
//
// [test it]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#test-it
package memstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Store keeps locks in memory. It implements [driver.Store], [driver.Waiter],
// [driver.Inspector], [driver.Lister], [driver.MetadataSetter], [driver.BulkReleaser] and [driver.Keeper]. The zero Store is empty and ready to use.
// A Store must not be copied after its first use. Its methods are safe for concurrent
// use, and only Wait blocks. The Store reads the clock of the goroutines that call it, so
// it works inside a synctest bubble.
type Store struct {
	// mu guards all fields below except token. It is held for a few map operations only;
	// the work on a key is done under the mutex of the key's state.
	mu         sync.Mutex
	keys       table[*state] // with a holder or a waiter
	timeline   timeline      // next checks of idle keys
	tombstones tombstones
	closed     bool

	closing basic.Closing
	token   atomic.Uint64 // last token granted for any key
}

var (
	_ driver.Store        = (*Store)(nil)
	_ driver.BulkReleaser = (*Store)(nil)
	_ driver.Keeper       = (*Store)(nil)
)

// New returns an empty store.
func New() *Store { return new(Store) }

// Acquire implements [driver.Store]. It does not overtake waiters. A token is the time in
// microseconds, or one more than the last token if that is greater.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	k, now, err := s.lockFor(ctx, r)
	if err != nil {
		return driver.Lease{}, err
	}
	defer s.unlock(k)
	h := s.tryAcquire(k, r, now)
	if h == nil {
		expiresIn, member := k.blockedFor(r, now)
		return driver.Lease{}, &driver.HeldError{Key: r.Key, Member: member, ExpiresIn: expiresIn}
	}
	return driver.Lease{Request: r, Token: h.token}, nil
}

var errAbandoned = fmt.Errorf("memstore: %w: the acquisition was given up", driver.ErrNotAcquired)

// lockFor locks the state of the request's key, and creates the state if there is none.
// It returns an error if the store refuses the request. The caller must unlock the state.
func (s *Store) lockFor(ctx context.Context, r driver.Request) (*state, time.Time, error) {
	if err := basic.Cause(ctx); err != nil {
		return nil, time.Time{}, err
	}
	switch {
	case r.Mode > driver.Members:
		return nil, time.Time{}, fmt.Errorf("memstore: %v: %w", r.Mode, errors.ErrUnsupported)
	case r.Mode == driver.Permit && r.Limit() < 1:
		return nil, time.Time{}, fmt.Errorf("memstore: the limit of permits must be at least 1, got %d", r.Limit())
	case r.Mode == driver.Permit && r.Permits() > r.Limit():
		return nil, time.Time{}, fmt.Errorf("memstore: a request for %d permits exceeds the limit of %d", r.Permits(), r.Limit())
	}
	k, now, err := s.lock(r.Key, max(r.TTL, 1))
	if err != nil {
		return nil, time.Time{}, err
	}
	if k.idle() {
		k.family = familyOf(r.Mode)
	}
	switch {
	case s.hasTombstone(r.Owner, now):
		err = errAbandoned
	case k.family != familyOf(r.Mode):
		err = driver.ErrWrongType
	default:
		return k, now, nil
	}
	s.unlock(k)
	return nil, time.Time{}, err
}

// tryAcquire grants the request, or extends the lease that the owner has already. It
// returns nil if another holder or a waiter blocks the request. The caller holds k.mu.
func (s *Store) tryAcquire(k *state, r driver.Request, now time.Time) *holder {
	h := k.holders.find(r.Owner)
	switch {
	case h == nil && !k.canGrant(r):
		return nil
	case h == nil:
		h = s.grant(k, r, now)
		for _, name := range r.Members() {
			m := k.memberOf(name)
			m.holder = h
			h.members = append(h.members, m)
		}
		return h
	case r.Mode == driver.Write && h.mode == driver.Read:
		return nil // sent before the owner's upgrade to Write
	}
	k.holders.extend(h, now.Add(r.TTL))
	h.mode = r.Mode
	return h
}

// grant adds a lease for the request, without its members. The caller holds k.mu.
func (s *Store) grant(k *state, r driver.Request, now time.Time) *holder {
	h := &holder{owner: r.Owner, mode: r.Mode, token: s.nextToken(now), until: now.Add(r.TTL), permits: r.Permits(), metadata: r.Metadata()}
	if n := len(r.Members()); n > 0 {
		h.members = make([]*member, 0, n)
	}
	k.lastToken = h.token
	k.holders.add(h)
	return h
}

func (s *Store) nextToken(now time.Time) uint64 {
	for {
		last := s.token.Load()
		next := max(last+1, uint64(now.UnixMicro()))
		if s.token.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Renew implements [renewal.Renewer].
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	return s.RenewExplained(ctx, batch, out, nil)
}

// RenewExplained implements [renewal.Explainer].
func (s *Store) RenewExplained(ctx context.Context, batch []driver.Lease, out []renewal.Outcome, why []renewal.Denial) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	if s.isClosed() {
		return driver.ErrStoreClosed
	}
	for i, l := range batch {
		out[i] = renewal.Lost
		k, now, err := s.lock(l.Key, 0)
		if err != nil {
			return err
		}
		if k == nil {
			explain(why, i, renewal.DeniedMissing)
			continue
		}
		h := k.holders.find(l.Owner)
		switch {
		case h != nil && h.token == l.Token:
			k.holders.extend(h, now.Add(l.TTL))
			out[i] = renewal.Renewed
		case k.holders.n > 0 && l.Mode == driver.Exclusive:
			explain(why, i, renewal.DeniedTaken)
		default:
			explain(why, i, renewal.DeniedMissing)
		}
		s.unlock(k)
	}
	return nil
}

// explain sets why[i] if the caller wants to know.
func explain(why []renewal.Denial, i int, d renewal.Denial) {
	if i < len(why) {
		why[i] = d
	}
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	if l.Unanswered {
		// Add the tombstone before locking the state. An Acquire that runs now may miss
		// the tombstone, but then its lease is found below.
		s.addTombstone(l.Owner)
	}
	keep := l.Keep() // before s.lock reads the clock, so that the lock does not become free too early
	k, now, err := s.lock(l.Key, 0)
	if err != nil {
		return err
	}
	if k == nil {
		return driver.ErrNotHeld
	}
	defer s.unlock(k)
	h := k.holders.find(l.Owner)
	if h == nil {
		return driver.ErrNotHeld
	}
	if keep > 0 {
		k.holders.keep(h, now.Add(keep))
		return nil
	}
	k.drop(h)
	return nil
}

// CanKeep implements [driver.Keeper]. The Store can keep locks of the modes Exclusive and Members.
func (s *Store) CanKeep(m driver.Mode) bool { return m == driver.Exclusive || m == driver.Members }

// ReleaseAll implements [driver.BulkReleaser].
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	for i := range batch {
		out[i] = s.Release(ctx, batch[i])
	}
	return nil
}

// Delete releases a lock for all its holders, like an operator who deletes the key on a
// server. It reports whether the lock was held. The lock goes to the first waiters. The
// holders learn of the loss at their next renewal.
func (s *Store) Delete(key string) bool {
	held, _ := s.revokeAll(key)
	return held
}

// ExpiresIn returns the time until the last lease of a key ends, if none is renewed. A
// lock that is kept after its release counts as a lease. ExpiresIn returns 0 if the key is free.
func (s *Store) ExpiresIn(key string) time.Duration {
	k, now, _ := s.lock(key, 0)
	if k == nil {
		return 0
	}
	defer s.unlock(k)
	if k.holders.n == 0 {
		return 0
	}
	return k.holders.ends.last().Sub(now)
}

// Len returns the number of locks that are held, or kept after their release. A lock with
// several holders counts once. Locks
// that are acquired or released during the call may count or not.
func (s *Store) Len() int {
	n, position, more := 0, uint64(0), true
	for more {
		var some []*state
		s.mu.Lock()
		some, position, more = s.keys.scan(position, nil)
		s.mu.Unlock()
		for _, k := range some {
			if s.isHeld(k) {
				n++
			}
		}
	}
	return n
}

// Close removes all locks and ends all calls of Wait. Later calls return
// [driver.ErrStoreClosed] or report an empty store. Close is idempotent and returns nil: every
// call waits until the store is closed.
func (s *Store) Close() error {
	return s.closing.Do(context.Background(), s.shutdown)
}

func (s *Store) shutdown() error {
	s.mu.Lock()
	keys := s.keys
	s.closed, s.keys, s.timeline, s.tombstones = true, table[*state]{}, timeline{}, tombstones{}
	s.mu.Unlock()
	for position, more := uint64(0), true; more; {
		var some []*state
		some, position, more = keys.scan(position, nil) // no other goroutine uses this table now
		for _, k := range some {
			k.mu.Lock()
			k.removed = true
			for w := k.head; w != nil; w = w.next {
				w.wake()
			}
			k.mu.Unlock()
		}
	}
	return nil
}
