// Package memstore keeps locks in the memory of one process: for tests, for
// examples, and for programs that want the lock API without a server. It passes
// the same contract as the stores on servers do, and knows all modes.
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

// Store is a lock.Store in memory, a lock.Waiter and a lock.Inspector. The zero Store
// is empty and ready to use; it must not be copied after its first use. Its methods are
// safe for concurrent use; none but Wait waits for anything. It lives by the clock of
// the goroutines that call it, so it works inside a synctest bubble.
type Store struct {
	mu     sync.Mutex           // guards all below, and the states
	keys   map[string]*state    // of keys that are held or waited for; nil before the first
	tombs  map[string]time.Time // owner → end of the tombstone; nil before the first
	token  uint64               // the last one granted, of any key
	sweep  int                  // size of the maps at which they are swept
	closed bool
}

const minSweep = 1024

var _ lock.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return new(Store) }

// Acquire implements [lock.Store]. Tokens are taken from the clock, in
// microseconds, and rise in any case. It does not overtake those that wait.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err := s.refuse(ctx, r, now); err != nil {
		return lock.Lease{}, err
	}
	k := s.open(r, now)
	h := s.take(k, r, now)
	if h == nil {
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: k.inTheWay(r, now)}
	}
	return lock.Lease{Request: r, Token: h.token}, nil
}

var (
	errNilContext = errors.New("memstore: the context is nil")
	errGivenUp    = fmt.Errorf("memstore: %w: the acquisition was given up", lock.ErrNotAcquired)
)

// endOf returns why ctx has ended, nil if it has not.
func endOf(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return context.Cause(ctx)
}

// refuse returns why a request is not served, if it is not. The caller holds mu.
func (s *Store) refuse(ctx context.Context, r lock.Request, now time.Time) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	switch {
	case r.Mode > lock.Members:
		return fmt.Errorf("memstore: %v: %w", r.Mode, errors.ErrUnsupported)
	case r.Mode == lock.Permit && r.Limit() < 1:
		return fmt.Errorf("memstore: the limit of permits must be at least 1, got %d", r.Limit())
	case s.closed:
		return lock.ErrClosed
	}
	if end, ok := s.tombs[r.Owner]; ok && now.Before(end) {
		return errGivenUp
	}
	if k := s.at(r.Key, now); k != nil && k.family != familyOf(r.Mode) {
		return lock.ErrWrongType
	}
	return nil
}

// take takes the lock for a request, unless others have it or wait for it: then
// it returns nil. The caller holds mu.
func (s *Store) take(k *state, r lock.Request, now time.Time) *holder {
	h := k.find(r.Owner)
	switch {
	case h == nil && (k.overtakes(r) || !k.fits(r)):
		return nil
	case h == nil:
		return s.grant(k, r, now)
	case r.Mode == lock.Write && h.mode == lock.Read:
		return nil // a message from before the turn
	}
	h.until = now.Add(r.TTL)
	if h.mode != r.Mode {
		h.mode = r.Mode
		s.serve(k, now)
	}
	return h
}

// grant gives an owner what it asks for. The caller holds mu.
func (s *Store) grant(k *state, r lock.Request, now time.Time) *holder {
	s.token = max(s.token+1, uint64(now.UnixMicro()))
	h := &holder{owner: r.Owner, mode: r.Mode, token: s.token, until: now.Add(r.TTL), members: r.Members(), metadata: r.Metadata()}
	k.granted = h.token
	k.add(h)
	return h
}

// Renew implements [renewal.Renewer].
func (s *Store) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lock.ErrClosed
	}
	now := time.Now()
	for i, l := range batch {
		h := s.holder(l, now)
		if h == nil || h.token != l.Token {
			out[i] = renewal.Lost
			continue
		}
		h.until = now.Add(l.TTL)
		out[i] = renewal.Renewed
	}
	return nil
}

// holder returns what the owner of a lease has, if it has anything. The caller
// holds mu.
func (s *Store) holder(l lock.Lease, now time.Time) *holder {
	k := s.keys[l.Key]
	if k == nil {
		return nil
	}
	if h := k.find(l.Owner); h != nil && h.alive(now) {
		return h
	}
	return nil
}

// Release implements [lock.Store].
func (s *Store) Release(ctx context.Context, l lock.Lease) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lock.ErrClosed
	}
	now := time.Now()
	if l.Unanswered {
		if s.tombs == nil {
			s.tombs = make(map[string]time.Time)
		}
		s.tombs[l.Owner] = now.Add(tombstone)
		s.tidy(now)
	}
	h := s.holder(l, now)
	if h == nil {
		return lock.ErrNotHeld
	}
	k := s.keys[l.Key]
	k.drop(func(other *holder) bool { return other == h })
	s.at(l.Key, now)
	return nil
}

// Delete takes a lock away from all its holders, as an operator does who deletes
// its key on a server, and reports whether there was one. It goes to those that
// wait. The holders learn of it by their next renewal.
func (s *Store) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seize(key)
}

// seize takes a lock away from all its holders. The caller holds mu.
func (s *Store) seize(key string) bool {
	now := time.Now()
	k := s.at(key, now)
	if k == nil || len(k.holders) == 0 {
		return false
	}
	k.drop(func(*holder) bool { return true })
	s.at(key, now)
	return true
}

// ExpiresIn returns how long the leases of a key last unless they are renewed: the
// last of them, 0 if there is none.
func (s *Store) ExpiresIn(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.at(key, now)
	if k == nil {
		return 0
	}
	return k.last(now)
}

// Len returns the number of locks that are held, by however many each.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, n := time.Now(), 0
	s.clear(now)
	for _, k := range s.keys {
		if k.last(now) > 0 {
			n++
		}
	}
	return n
}

// Close forgets all locks and ends the calls of Wait. Those, and what is called later,
// return lock.ErrClosed, or that there is nothing. It returns nil, a second one too.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, k := range s.keys {
		for place := k.queue.Front(); place != nil; place = place.Next() {
			place.Value.(*waiter).rouse()
		}
	}
	clear(s.keys)
	clear(s.tombs)
	return nil
}

// open returns the state of a key that a request may be served by, a new one if
// there is none. The caller holds mu.
func (s *Store) open(r lock.Request, now time.Time) *state {
	k := s.keys[r.Key]
	if k == nil {
		s.tidy(now) // before: nobody holds the new one yet
		k = &state{family: familyOf(r.Mode)}
		if s.keys == nil {
			s.keys = make(map[string]*state)
		}
		s.keys[r.Key] = k
	}
	return k
}

// at returns the state of a key, after what has expired was dropped and handed
// over to those that wait; nil if nobody holds it or waits then. The caller holds
// mu.
func (s *Store) at(key string, now time.Time) *state {
	k := s.keys[key]
	if k == nil {
		return nil
	}
	k.expire(now)
	s.serve(k, now)
	if k.idle() {
		delete(s.keys, key)
		return nil
	}
	return k
}

// tidy sweeps once the maps have doubled, so that each entry bears the cost of
// about one look. The caller holds mu.
func (s *Store) tidy(now time.Time) {
	if len(s.keys)+len(s.tombs) < s.sweep {
		return
	}
	s.clear(now)
	s.sweep = max(2*(len(s.keys)+len(s.tombs)), minSweep)
}

// clear removes what has expired. Keys that are waited for are left to those who
// wait. The caller holds mu.
func (s *Store) clear(now time.Time) {
	for key, k := range s.keys {
		if k.queue.Len() == 0 && k.last(now) == 0 {
			delete(s.keys, key)
		}
	}
	for owner, end := range s.tombs {
		if !now.Before(end) {
			delete(s.tombs, owner)
		}
	}
}
