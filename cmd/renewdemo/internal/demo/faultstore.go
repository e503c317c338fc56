// A store that injects faults and counts.

package demo

import (
	"context"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// faultStore is a store that injects faults. For each key it records the earliest time at
// which the store can grant the key again: a TTL after the last executed request was sent. The
// notice of a loss is in time if it comes before that.
type faultStore struct {
	*backend
	driver.Store                      // what the client calls
	renewed      func(sent time.Time) // is called after each renewal that the store has done; may be nil

	mu    sync.Mutex // guards all fields below
	fault string
	on    bool          // the fault has started
	over  chan struct{} // is closed when the fault ends
	ends  map[string]time.Time
	freed int // leases released
}

func newFaultStore(b *backend, c config) *faultStore {
	w := &faultStore{backend: b, fault: c.fault, over: make(chan struct{}), ends: make(map[string]time.Time, c.leases)}
	w.Store = driver.Wrap(b.Store, w.around)
	return w
}

// startFault turns the fault on.
func (w *faultStore) startFault() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = true
}

// setFault starts a fault, or ends it if the fault is "". Calls that hang are then executed, unless
// their contexts have ended.
func (w *faultStore) setFault(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.over)
	w.fault, w.on, w.over = fault, fault != "", make(chan struct{})
}

func (w *faultStore) around(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	if c.Name == "renew" {
		return w.renew(ctx, c, next)
	}
	sent := time.Now()
	err := next(ctx)
	switch {
	case err != nil:
	case c.Name == "acquire", c.Name == "wait":
		if !c.Granted.Sent.IsZero() {
			sent = c.Granted.Sent
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends[c.Key] = sent.Add(c.Request.TTL)
	case c.Errors != nil:
		for _, failed := range c.Errors {
			if failed == nil {
				w.addReleased(1)
			}
		}
	case c.Name == "release":
		w.addReleased(1)
	}
	return err
}

func (w *faultStore) renew(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	fault, over := w.current()
	if fault == "hang" {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
		}
	}
	sent := time.Now()
	err := next(ctx)
	done := 0
	w.mu.Lock()
	for i, l := range c.Leases {
		if c.Outcomes[i] == renewal.Renewed {
			w.ends[l.Key] = sent.Add(l.TTL)
			done++
		}
	}
	w.mu.Unlock()
	if done > 0 && w.renewed != nil {
		w.renewed(sent)
	}
	if fault == "drop" {
		clear(c.Outcomes)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

func (w *faultStore) addReleased(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freed += n
}

// released returns the number of leases that the store has confirmed as released.
func (w *faultStore) released() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.freed
}

// current returns the fault of renewals, or "", and a channel that is closed when it is over.
func (w *faultStore) current() (fault string, over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.on {
		return "", nil
	}
	return w.fault, w.over
}

// heldUntil returns the earliest time at which the store can grant the key again.
func (w *faultStore) heldUntil(key string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[key]
}
