// The state that a holder leaves to the next one.

package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// saved is the state of a key. It needs no lock of that key.
type saved struct {
	driver.Saved
	number uint64 // of the save
	until  time.Time
}

// Save implements [driver.Store].
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("memstore: a state in mode %v: %w", l.Mode, errors.ErrUnsupported)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	_, h := s.held(&l, now)
	if h == nil || h.token != l.Token {
		return driver.ErrNotHeld
	}
	s.expireSaved(now)
	if old, ok := s.saved[l.Key]; ok && old.Token == l.Token && old.number >= number {
		return nil
	}
	if s.saved == nil {
		s.saved = make(map[string]saved)
	}
	s.saved[l.Key] = saved{driver.Saved{Data: slices.Clone(data), Token: l.Token}, number, now.Add(ttl)}
	return nil
}

// Forget implements [driver.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.saved, key)
	return nil
}

// savedFor returns the state for a request that has the lock, or nil if it does not ask for that.
func (s *Store) savedFor(r driver.Request, now time.Time) *driver.Saved {
	if !r.Stateful() {
		return nil
	}
	if of, ok := s.saved[r.Key]; ok && now.Before(of.until) {
		return &of.Saved
	}
	return new(driver.Saved)
}

// expireSaved looks at two states and removes them if they have ended. So states end although nobody
// asks for their keys: the order of a map is random.
func (s *Store) expireSaved(now time.Time) {
	looks := 2
	for key, of := range s.saved {
		if !now.Before(of.until) {
			delete(s.saved, key)
		}
		if looks--; looks == 0 {
			return
		}
	}
}
