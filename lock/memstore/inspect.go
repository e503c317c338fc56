// What operators, tests and other clients of the store may see and change.

package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// The bounds of an Info, and of the keys that one call of List looks at.
const (
	maxHolders = 16
	maxPlaces  = 100
	maxListed  = 500
)

// Inspect implements [driver.Store]. Info.Token is 0 once the key is idle, because
// the store removes its state.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return driver.Info{}, err
	}
	defer s.mu.Unlock()
	k := s.find(key, now)
	if k == nil {
		return driver.Info{}, nil
	}
	leases := slices.SortedFunc(maps.Values(k.leases), func(a, b *holder) int { return cmp.Compare(a.token, b.token) })
	leases = slices.DeleteFunc(leases, func(h *holder) bool { return h.kept })
	info := driver.Info{Held: len(leases), Waiting: len(k.queue), Token: k.lastToken}
	if info.Held == 0 {
		info.FreeIn = k.end().Sub(now)
	}
	for _, h := range leases[:min(len(leases), maxHolders)] {
		shown := driver.Holder{Mode: k.mode, Token: h.token, ExpiresIn: h.until.Sub(now), Metadata: h.metadata, Client: driver.ClientName(h.owner), Members: len(h.members)}
		if k.mode == driver.Permit {
			shown.Permits = h.permits
		}
		info.Holders = append(info.Holders, shown)
	}
	for _, w := range k.queue[:min(len(k.queue), maxPlaces)] {
		r := w.request
		info.Places = append(info.Places, driver.Place{Mode: r.Mode, Metadata: r.Metadata(), Client: driver.ClientName(r.Owner), Waited: max(now.Sub(w.since), 1)})
	}
	return info, nil
}

// SetMetadata implements [driver.Store], in all modes.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	_, h := s.held(&l, now)
	if h == nil || h.token != l.Token {
		return driver.ErrNotHeld
	}
	h.metadata = metadata
	return nil
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	k := s.find(key, now)
	if k == nil {
		return driver.ErrNotHeld
	}
	for _, h := range k.leases {
		k.drop(h)
	}
	s.settle(k, now)
	return nil
}

// Delete releases a lock for all its holders, like an operator who deletes the key on a
// server. It reports whether the lock was held. The lock goes to the first waiters. The
// holders learn of the loss at their next renewal.
func (s *Store) Delete(key string) bool { return s.ForceRelease(context.Background(), key) == nil }

// ExpiresIn returns the time until the last lease of a key ends, if none is renewed. A
// lock that is kept after its release counts as a lease. ExpiresIn returns 0 if the key is free.
func (s *Store) ExpiresIn(key string) (left time.Duration) {
	s.look(key, func(k *state, now time.Time) { left = k.end().Sub(now) })
	return left
}

// Waiting returns the number of waiters for a lock.
func (s *Store) Waiting(key string) (n int) {
	s.look(key, func(k *state, _ time.Time) { n = len(k.queue) })
	return n
}

// look calls f for a key that is not free, with mu held.
func (s *Store) look(key string, f func(k *state, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if k := s.find(key, now); k != nil {
		f(k, now)
	}
}

// Len returns the number of locks that are held, or kept after their release. A lock with
// several holders counts once. Len looks at all locks.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i := len(s.all) - 1; i >= 0; i-- { // as in List
		s.expire(s.all[i], now)
	}
	return len(s.all)
}

// List implements [driver.Store]. One call looks at several hundred keys. The cursor is a
// position in the list of all keys. List goes from the last key to the first, because a key
// that it has not met yet moves forward only.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer s.mu.Unlock()
	position := uint64(len(s.all))
	if cursor != "" {
		from, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("memstore: the cursor is not one of List: %q", cursor)
		}
		position = min(position, from)
	}
	for range min(maxListed, position) {
		position--
		if k := s.all[position]; strings.HasPrefix(k.key, prefix) && s.expire(k, now) {
			keys = append(keys, k.key)
		}
	}
	if position > 0 {
		next = strconv.FormatUint(position, 10)
	}
	return keys, next, nil
}

// Import implements [driver.Store]. Another client of the same Store can take the lease over.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) { return l, nil }
