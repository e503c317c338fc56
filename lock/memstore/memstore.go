// Package memstore keeps locks in the memory of one process: for tests, for
// examples, and for programs that want the lock API without a server. It passes
// the same contract as the stores on servers do.
package memstore

import (
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

// Store is a lock.Store in memory. Its methods are safe for concurrent use, and
// never wait for anything. It lives by the clock of the goroutines that call it,
// so it works inside a synctest bubble.
type Store struct {
	mu     sync.Mutex // guards all below
	locks  map[string]record
	tombs  map[string]time.Time // owner → end of the tombstone
	token  uint64               // the last one granted, of any key
	sweep  int                  // size of the maps at which they are swept
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
	return &Store{locks: make(map[string]record), tombs: make(map[string]time.Time), sweep: minSweep}
}

// Acquire implements [lock.Store]. Tokens are taken from the clock, in
// microseconds, and rise in any case.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	if err := ctx.Err(); err != nil {
		return lock.Lease{}, context.Cause(ctx)
	}
	if r.Mode != lock.Exclusive {
		return lock.Lease{}, fmt.Errorf("memstore: %v: %w", r.Mode, errors.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.closed {
		return lock.Lease{}, lock.ErrClosed
	}
	if end, ok := s.tombs[r.Owner]; ok && now.Before(end) {
		return lock.Lease{}, fmt.Errorf("memstore: %w: the acquisition was given up", lock.ErrNotAcquired)
	}
	held, ok := s.alive(r.Key, now)
	switch {
	case ok && held.owner != r.Owner:
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: held.until.Sub(now)}
	case !ok:
		s.token = max(s.token+1, uint64(now.UnixMicro()))
		held = record{owner: r.Owner, token: s.token}
	}
	held.until = now.Add(r.TTL)
	s.locks[r.Key] = held
	s.tidy(now)
	return lock.Lease{Request: r, Token: held.token}, nil
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
	return nil
}

// Delete takes a lock away from its holder, as an operator does who deletes its
// key on a server, and reports whether there was one. The holder learns of it by
// its next renewal.
func (s *Store) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.alive(key, time.Now())
	delete(s.locks, key)
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
	clear(s.locks)
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
