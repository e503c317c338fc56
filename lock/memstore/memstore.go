// Package memstore keeps locks in the memory of one process: for tests, for
// examples, and for programs that want the lock API without a server. It passes
// the same contract as the stores on servers do.
package memstore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// tombstone is how long an owner that was released without its Acquire having
// been answered is refused.
const tombstone = time.Minute

// Store is a lock.Store in memory, and a lock.Waiter. Its methods are safe for
// concurrent use; none but Wait waits for anything. It lives by the clock of the
// goroutines that call it, so it works inside a synctest bubble.
type Store struct {
	mu     sync.Mutex // guards all below
	locks  map[string]record
	queues map[string]*list.List // key → those that wait, at least one
	tombs  map[string]time.Time  // owner → end of the tombstone
	token  uint64                // the last one granted, of any key
	sweep  int                   // size of the maps at which they are swept
	closed bool
}

type record struct {
	owner string
	token uint64
	until time.Time
}

const minSweep = 1024

var _ lock.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		locks:  make(map[string]record),
		queues: make(map[string]*list.List),
		tombs:  make(map[string]time.Time),
		sweep:  minSweep,
	}
}

// Acquire implements [lock.Store]. Tokens are taken from the clock, in
// microseconds, and rise in any case. It does not overtake those that wait.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err := s.refuse(ctx, r, now); err != nil {
		return lock.Lease{}, err
	}
	held, ok := s.take(r, now)
	if !ok {
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: held.until.Sub(now)}
	}
	return lock.Lease{Request: r, Token: held.token}, nil
}

var errGivenUp = fmt.Errorf("memstore: %w: the acquisition was given up", lock.ErrNotAcquired)

// refuse returns why a request is not served, if it is not. The caller holds mu.
func (s *Store) refuse(ctx context.Context, r lock.Request, now time.Time) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case r.Mode != lock.Exclusive:
		return fmt.Errorf("memstore: %v: %w", r.Mode, errors.ErrUnsupported)
	case s.closed:
		return lock.ErrClosed
	}
	if end, ok := s.tombs[r.Owner]; ok && now.Before(end) {
		return errGivenUp
	}
	return nil
}

// take takes the lock for a request, unless another has it, who is returned then;
// a lock that is free goes to those that wait for it. The caller holds mu.
func (s *Store) take(r lock.Request, now time.Time) (record, bool) {
	s.advance(r.Key, now)
	held, ok := s.alive(r.Key, now)
	switch {
	case !ok:
		return s.grant(r, now), true
	case held.owner != r.Owner:
		return held, false
	}
	held.until = now.Add(r.TTL)
	s.locks[r.Key] = held
	return held, true
}

// grant gives a lock that is free to an owner. The caller holds mu.
func (s *Store) grant(r lock.Request, now time.Time) record {
	s.token = max(s.token+1, uint64(now.UnixMicro()))
	held := record{owner: r.Owner, token: s.token, until: now.Add(r.TTL)}
	s.locks[r.Key] = held
	s.tidy(now)
	return held
}

// Renew implements [renewal.Renewer].
func (s *Store) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lock.ErrClosed
	}
	now := time.Now()
	for i, l := range batch {
		held, ok := s.alive(l.Key, now)
		if !ok || held.owner != l.Owner || held.token != l.Token {
			out[i] = renewal.Lost
			continue
		}
		held.until = now.Add(l.TTL)
		s.locks[l.Key] = held
		out[i] = renewal.Renewed
	}
	return nil
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, l lock.Lease) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lock.ErrClosed
	}
	now := time.Now()
	if l.Unanswered {
		s.tombs[l.Owner] = now.Add(tombstone)
		s.tidy(now)
	}
	if held, ok := s.alive(l.Key, now); !ok || held.owner != l.Owner {
		return lock.ErrNotHeld
	}
	delete(s.locks, l.Key)
	s.advance(l.Key, now)
	return nil
}

// Delete takes a lock away from its holder, as an operator does who deletes its
// key on a server, and reports whether there was one. It goes to the first that
// waits. The holder learns of it by its next renewal.
func (s *Store) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	_, ok := s.alive(key, now)
	delete(s.locks, key)
	s.advance(key, now)
	return ok
}

// ExpiresIn returns how long the lease of a key lasts unless it is renewed, 0 if
// there is none.
func (s *Store) ExpiresIn(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	held, ok := s.alive(key, now)
	if !ok {
		return 0
	}
	return held.until.Sub(now)
}

// Len returns the number of locks that are held.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear(time.Now())
	return len(s.locks)
}

// Close forgets all locks; all methods then return lock.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, queue := range s.queues {
		for place := queue.Front(); place != nil; place = place.Next() {
			place.Value.(*waiter).rouse()
		}
	}
	clear(s.locks)
	clear(s.queues)
	clear(s.tombs)
	return nil
}

// alive returns the lease of a key unless it has expired. The caller holds mu.
func (s *Store) alive(key string, now time.Time) (record, bool) {
	held, ok := s.locks[key]
	return held, ok && now.Before(held.until)
}

// tidy sweeps once the maps have doubled, so that each entry bears the cost of
// about one look. The caller holds mu.
func (s *Store) tidy(now time.Time) {
	if len(s.locks)+len(s.tombs) < s.sweep {
		return
	}
	s.clear(now)
	s.sweep = max(2*(len(s.locks)+len(s.tombs)), minSweep)
}

// clear removes what has expired. The caller holds mu.
func (s *Store) clear(now time.Time) {
	for key, held := range s.locks {
		if !now.Before(held.until) {
			delete(s.locks, key)
		}
	}
	for owner, end := range s.tombs {
		if !now.Before(end) {
			delete(s.tombs, owner)
		}
	}
}
