// Watch: holders that learn that others wait.

package redisstore

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

var yields = driver.ModesOf(driver.Exclusive, driver.Read, driver.Write)

// watches are the leases whose holders want to know that others wait. The answer to a renewal says so. The store
// asks at once after a message, after all that may hide one, and for a new lease, because others may have
// waited before: by a renewal that extends nothing.
type watches struct {
	mu     sync.Mutex        // guards all below, and told of each watch
	of     map[string]*watch // by the value of the lock
	asks   []driver.Lease    // that are to be asked about
	asking bool              // ask runs
}

type watch struct {
	lease  driver.Lease
	wanted func()
	told   bool // wanted was called
}

// maxAsks bounds the leases of one question.
const maxAsks = 1000

// Watch implements [driver.Store], in the modes Exclusive, Read and Write. It keeps the connection for messages open.
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	st, err := s.stateOf(&l)
	if err != nil || s.redis == nil || !st.yields || !yields.Has(l.Mode) {
		return func() {}
	}
	l.State, l.TTL = st, time.Millisecond
	w, name, all := &watch{lease: l, wanted: wanted}, wireOwner(&l.Request), &s.watches
	all.mu.Lock()
	if all.of == nil {
		all.of = make(map[string]*watch)
	}
	all.of[st.value] = w
	all.mu.Unlock()
	listener := pubsub.NewCaller(name, channelOf(name), func() { s.ask(w) })
	s.subscription.Listen(listener) // calls ask when the channel is on
	return func() {
		s.subscription.Leave(listener)
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.of[st.value] == w { // not that of a writer that is a reader now
			delete(all.of, st.value)
		}
	}
}

// ask asks the server whether others wait, in the background.
func (s *Store) ask(w *watch) {
	all := &s.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.told {
		return
	}
	all.asks = append(all.asks, w.lease)
	if all.asking || s.redis.Begin(s.redis.Context()) != nil {
		return
	}
	all.asking = true
	go func() {
		defer s.redis.End()
		for batch := all.next(); len(batch) > 0; batch = all.next() {
			_ = rediskit.Renew(s.redis.Context(), s.renewals(), batch, make([]renewal.Outcome, len(batch))) // an error leaves it to the next renewal
		}
	}()
}

// next returns leases to be asked about. If there are none, the next ask must start the loop again.
func (all *watches) next() []driver.Lease {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := min(len(all.asks), maxAsks)
	batch := all.asks[:n:n]
	if all.asks = all.asks[n:]; n == 0 {
		all.asks, all.asking = nil, false
	}
	return batch
}

// wanted tells the holder of a lease that others wait.
func wanted(it *item) {
	all := &it.State.store.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w := all.of[it.State.value]; w != nil && !w.told {
		w.told = true
		w.wanted()
	}
}
