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

// watches are the leases whose holders want to know that others wait. The answer to a renewal reports it. The store
// asks at once after a message, after all that may hide one, and for a new lease, because others may have
// waited before: by a renewal that extends nothing.
type watches struct {
	mu     sync.Mutex        // guards all below, and the flags of each watch
	of     map[string]*watch // by the value of the lock
	asks   []*watch          // that are to be asked about, each once
	asking bool              // ask runs
}

type watch struct {
	lease  driver.Lease
	wanted func()
	asked  bool // it is in asks
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
	if w.told || w.asked {
		return
	}
	w.asked = true
	all.asks = append(all.asks, w)
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
func (all *watches) next() (batch []driver.Lease) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for len(all.asks) > 0 && len(batch) < maxAsks {
		w := all.asks[0]
		all.asks[0], all.asks = nil, all.asks[1:]
		if w.asked = false; all.of[w.lease.State.(*leaseState).value] == w && !w.told {
			batch = append(batch, w.lease)
		}
	}
	all.asking = len(batch) > 0
	return batch
}

// wanted notifies the holder of a lease that others wait.
func wanted(it *item) {
	all := &it.State.store.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w := all.of[it.State.value]; w != nil && !w.told {
		w.told = true
		w.wanted()
	}
}
