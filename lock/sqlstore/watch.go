// Watch: holders that learn that others wait.

package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const lookEvery = time.Second // for places of the keys that are watched

// watches are the leases whose holders want to know that others wait. Their goroutine runs while there are any.
type watches struct {
	mu      sync.Mutex // guards all below
	wanted  map[*driver.Lease]func()
	running bool
}

// Watch implements [driver.Store]. One statement a second looks for the waiters of up to 1,000 keys.
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	all := &s.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if l.Mode != driver.Exclusive {
		return func() {}
	}
	if all.wanted == nil {
		all.wanted = make(map[*driver.Lease]func())
	}
	all.wanted[&l] = wanted
	if !all.running && s.calls.Enter() {
		all.running = true
		go s.look()
	}
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.wanted, &l)
	}
}

// look is the goroutine of the watches. A statement that fails is repeated like any other.
func (s *Store) look() {
	defer s.calls.Leave()
	for keys := s.watches.keys(); len(keys) > 0; keys = s.watches.keys() {
		for part := range slices.Chunk(keys, maxAsked) {
			where, args := s.dialect.in(oneColumn(part))
			waited, _ := call(s.calls.Ctx, s, func(ctx context.Context, c *sql.Conn) (keys map[string]bool, err error) {
				keys = make(map[string]bool)
				var key []byte
				err = eachRow(ctx, c, s.texts.waitedFor+where, args, []any{&key}, func() { keys[string(key)] = true })
				return keys, err
			})
			s.watches.tell(waited)
		}
		if basic.Sleep(s.calls.Ctx, lookEvery) != nil {
			return
		}
	}
}

// keys returns the keys that are watched. If there are none, the next Watch must start the goroutine again.
func (all *watches) keys() (keys []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for l := range all.wanted {
		keys = append(keys, l.Key)
	}
	all.running = len(keys) > 0
	slices.Sort(keys)
	return slices.Compact(keys)
}

// tell notifies the holders of keys that others wait, once.
func (all *watches) tell(keys map[string]bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for l, wanted := range all.wanted {
		if keys[l.Key] {
			delete(all.wanted, l)
			wanted()
		}
	}
}
