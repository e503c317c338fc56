// This file is about a store that injects faults and counts.

package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// faultStore is a store that injects faults. For each key it records the earliest time at
// which the store can grant the key again: a TTL after the last executed request was sent. The
// notice of a loss is in time if it comes before that.
type faultStore struct {
	*Backend
	renewed func(sent time.Time) // is called after each renewal that the store has done; may be nil

	mu     sync.Mutex // guards all fields below
	fault  string
	on     bool          // the fault has started
	over   chan struct{} // is closed when the fault ends
	ends   map[string]time.Time
	failed map[string]bool // the last renewal of the key failed
	calls  int
	errors int // injected
	freed  int // leases released
}

var errInjected = errors.New("injected: connection reset")

// failEvery is the number of renewals of which one fails with -fault errors.
const failEvery = 4

func newFaultStore(b *Backend, c config) *faultStore {
	return &faultStore{Backend: b, fault: c.fault, over: make(chan struct{}), ends: make(map[string]time.Time, c.leases), failed: make(map[string]bool)}
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

func (w *faultStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	sent := time.Now()
	l, err := w.Backend.Acquire(ctx, r)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends[r.Key] = sent.Add(r.TTL)
	}
	return l, err
}

func (w *faultStore) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	fault, over := w.faultFor(batch)
	switch fault {
	case "hang":
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
		}
	case "errors":
		return errInjected
	case "drop":
		_ = w.renew(ctx, batch, make([]renewal.Outcome, len(batch)))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return w.renew(ctx, batch, out)
}

// renew executes a renewal and records the new ends.
func (w *faultStore) renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	sent := time.Now()
	err := w.Backend.Renew(ctx, batch, out)
	done := 0
	w.mu.Lock()
	for i, l := range batch {
		if out[i] == renewal.Renewed {
			w.ends[l.Key] = sent.Add(l.TTL)
			done++
		}
	}
	w.mu.Unlock()
	if done > 0 && w.renewed != nil {
		w.renewed(sent)
	}
	return err
}

func (w *faultStore) Release(ctx context.Context, l driver.Lease) error {
	err := w.Backend.Release(ctx, l)
	if err == nil {
		w.addReleased(1)
	}
	return err
}

// ReleaseAll implements driver.BulkReleaser if the backend does.
func (w *faultStore) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	bulk, ok := w.Store.(driver.BulkReleaser)
	if !ok {
		return errors.ErrUnsupported
	}
	err := bulk.ReleaseAll(ctx, batch, out)
	if err != nil {
		return err
	}
	for _, failed := range out[:len(batch)] {
		if failed == nil {
			w.addReleased(1)
		}
	}
	return nil
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

// faultFor returns the fault of a batch, or "", and a channel that is closed when it is over. With
// the fault errors no key fails twice in a row.
func (w *faultStore) faultFor(batch []driver.Lease) (fault string, over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.on || w.fault == "steal":
		return "", nil
	case w.fault != "errors":
		return w.fault, w.over
	}
	w.calls++
	fail := w.calls%failEvery == 0
	for _, l := range batch {
		fail = fail && !w.failed[l.Key]
	}
	for _, l := range batch {
		w.failed[l.Key] = fail
	}
	if !fail {
		return "", nil
	}
	w.errors++
	return "errors", nil
}

// heldUntil returns the earliest time at which the store can grant the key again.
func (w *faultStore) heldUntil(key string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[key]
}

func (w *faultStore) injected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errors
}
