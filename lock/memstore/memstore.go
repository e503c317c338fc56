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
	"math"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Store keeps locks in memory. The zero Store is empty and ready to use. A Store must not be
// copied after its first use. Its methods are safe for concurrent use, and only Wait blocks. The Store
// reads the clock of the goroutines that call it, so it works inside a synctest bubble.
//
// One mutex guards the Store. The time of a call does not depend on the number of locks, but it may
// grow with the number of holders and waiters of the key. A Store keeps the memory for its largest
// number of locks.
type Store struct {
	driver.Base

	mu      sync.Mutex        // guards all fields below, and all that they refer to
	keys    map[string]*state // that are held or kept
	all     []*state          // the values of keys
	hand    int               // where create has stopped in all
	token   uint64            // last token granted for any key
	saved   map[string]saved  // by key
	refused tombstones
	closed  bool
}

var _ driver.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return new(Store) }

// begin locks the store for a call and returns the time of the call. After an error the
// store is not locked.
func (s *Store) begin(ctx context.Context) (time.Time, error) {
	if err := basic.Cause(ctx); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return time.Time{}, driver.ErrStoreClosed
	}
	return time.Now(), nil
}

// Acquire implements [driver.Store]. It does not overtake waiters. A token is the time in
// microseconds, or one more than the last token if that is greater.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return driver.Lease{}, err
	}
	defer s.mu.Unlock()
	k, h, err := s.tryAcquire(r, now)
	if err != nil {
		return driver.Lease{}, err
	}
	if h == nil {
		expiresIn, member := k.blockedFor(r, now)
		return driver.Lease{}, &driver.HeldError{Key: r.Key, Member: member, ExpiresIn: expiresIn}
	}
	return driver.Lease{Request: r, Token: h.token, Saved: s.savedFor(r, now)}, nil
}

var errAbandoned = fmt.Errorf("memstore: %w: the acquisition was given up", driver.ErrNotAcquired)

// tryAcquire grants the request, or extends the lease that the owner has already. The holder
// is nil if another holder or a waiter blocks the request. An error means that the store
// refuses the request.
func (s *Store) tryAcquire(r driver.Request, now time.Time) (*state, *holder, error) {
	switch {
	case r.Mode > driver.Members:
		return nil, nil, fmt.Errorf("memstore: %v: %w", r.Mode, errors.ErrUnsupported)
	case r.Mode == driver.Permit && r.Limit() < 1:
		return nil, nil, fmt.Errorf("memstore: the limit of permits must be at least 1, got %d", r.Limit())
	case r.Mode == driver.Permit && r.Permits() > r.Limit():
		return nil, nil, fmt.Errorf("memstore: a request for %d permits exceeds the limit of %d", r.Permits(), r.Limit())
	case s.refused.has(r.Owner, now):
		return nil, nil, errAbandoned
	}
	k := s.find(r.Key, now)
	switch {
	case k == nil:
		k = s.create(r, now)
	case !related(k.mode, r.Mode):
		return nil, nil, driver.ErrWrongType
	}
	h := k.leases[r.Owner]
	switch {
	case h == nil && !k.canGrant(r):
	case h == nil:
		h = s.grant(k, r, now)
		k.wakeFirst() // the new lease may be the first to end
	case r.Mode == driver.Write && k.mode == driver.Read:
		h = nil // sent before the owner's downgrade to Read
	default:
		h.extend(now.Add(r.TTL))
		if k.mode != r.Mode { // a downgrade to Read
			k.mode = r.Mode
			s.settle(k, now)
		}
	}
	return k, h, nil
}

// Wait implements [driver.Store]. A waiter stays in the queue until it has the lock, or
// ctx ends.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	w := &waiter{request: r, wakeup: make(chan struct{}, 1)}
	defer s.leave(w) // also if queued panics
	for {
		l, rest, err := s.tryOrQueue(ctx, w)
		if err != nil || rest == 0 {
			return l, err
		}
		queued()
		select {
		case <-ctx.Done():
		case <-w.wakeup:
		case <-time.After(rest):
		}
	}
}

// tryOrQueue acquires the lock if it can, and otherwise enqueues the waiter. It returns
// the longest time that the waiter may sleep, which is 0 if it has the lock.
func (s *Store) tryOrQueue(ctx context.Context, w *waiter) (driver.Lease, time.Duration, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return driver.Lease{}, 0, err
	}
	defer s.mu.Unlock()
	var k *state
	if w.queued {
		k = s.find(w.request.Key, now) // may serve w
	}
	if !w.queued {
		var h *holder
		if k, h, err = s.tryAcquire(w.request, now); err != nil {
			return driver.Lease{}, 0, err
		}
		if h != nil {
			return driver.Lease{Request: w.request, Token: h.token, Sent: now, Saved: s.savedFor(w.request, now)}, 0, nil
		}
		k.enqueue(w, now)
	}
	if k.queue[0] != w {
		return driver.Lease{}, math.MaxInt64, nil
	}
	return driver.Lease{}, k.due.Sub(now), nil
}

// leave removes a waiter from its queue, if it is in it, and serves the waiters behind it. If
// the waiter has acquired the lock already, the lock stays until Release.
func (s *Store) leave(w *waiter) {
	s.look(w.request.Key, func(k *state, now time.Time) {
		if w.queued {
			k.dequeue(w)
			s.settle(k, now)
		}
	})
}

// Renew implements [renewal.Renewer].
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	for i := range batch {
		l := &batch[i]
		k, h := s.held(l, now)
		switch {
		case h != nil && h.token == l.Token:
			h.extend(now.Add(l.TTL))
			out[i] = renewal.Renewed
		case l.Mode == driver.Exclusive && k != nil && !k.isKept():
			out[i] = renewal.LostTaken
		default:
			out[i] = renewal.LostMissing
		}
	}
	return nil
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	keep := l.Keep() // before begin reads the clock, so that the lock does not become free too early
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if l.Unanswered {
		s.refused.add(l.Owner, now)
	}
	k, h := s.held(&l, now)
	if h == nil {
		return driver.ErrNotHeld
	}
	if keep > 0 {
		k.keep(h, now.Add(keep))
	} else {
		k.drop(h)
	}
	s.settle(k, now)
	return nil
}

// Watch implements [driver.Store].
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	s.look(l.Key, func(k *state, _ time.Time) {
		if h := k.leases[l.Owner]; h != nil && yields.Has(l.Mode) {
			h.wanted = &wanted
			k.ask()
		}
	})
	return func() {
		s.look(l.Key, func(k *state, _ time.Time) {
			if h := k.leases[l.Owner]; h != nil && h.wanted == &wanted { // not that of a writer that is a reader now
				h.wanted = nil
			}
		})
	}
}

// Describe implements [driver.Store]. The Store can keep locks of the modes Exclusive and Members.
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Waits: true, ReleasesAll: true, Inspects: true, TimesWaiters: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
		Keeps:  driver.ModesOf(driver.Exclusive, driver.Members),
		Yields: yields,
	}
}

var yields = driver.ModesOf(driver.Exclusive, driver.Read, driver.Write)

// ReleaseAll implements [driver.Store].
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	for i := range batch {
		out[i] = s.Release(ctx, batch[i])
	}
	return nil
}

// Close removes all locks and ends all calls of Wait. Later calls return
// [driver.ErrStoreClosed] or report an empty store. Close is idempotent and returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.all {
		for _, w := range k.queue {
			w.queued = false
			w.wake()
		}
	}
	s.closed, s.keys, s.all, s.saved, s.refused = true, nil, nil, nil, tombstones{}
	return nil
}

// Shutdown is Close.
func (s *Store) Shutdown(context.Context) error { return s.Close() }

// tombstoneTime is how long the store refuses an owner that was released before its
// Acquire was answered.
const tombstoneTime = time.Minute

// tombstones are the owners whose requests are refused.
type tombstones struct {
	until map[string]time.Time // by owner
	order []string             // the owners, in the order in which they were added
}

func (t *tombstones) add(owner string, now time.Time) {
	t.expire(now)
	if t.until == nil {
		t.until = make(map[string]time.Time)
	}
	t.until[owner] = now.Add(tombstoneTime)
	t.order = append(t.order, owner)
}

func (t *tombstones) has(owner string, now time.Time) bool {
	t.expire(now)
	return now.Before(t.until[owner])
}

// expire drops the owners that were added long enough ago.
func (t *tombstones) expire(now time.Time) {
	for len(t.order) > 0 && !now.Before(t.until[t.order[0]]) {
		delete(t.until, t.order[0])
		t.order = t.order[1:]
	}
}
