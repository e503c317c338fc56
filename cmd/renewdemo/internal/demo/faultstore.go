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
	fault string

	mu     sync.Mutex // guards all fields below
	on     bool       // the fault has started
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
	return &faultStore{Backend: b, fault: c.fault, ends: make(map[string]time.Time, c.leases), failed: make(map[string]bool)}
}

// startFault turns the fault on.
func (w *faultStore) startFault() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = true
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
	switch w.faultFor(batch) {
	case "hang":
		<-ctx.Done()
		return context.Cause(ctx)
	case "errors":
		return errInjected
	}
	sent := time.Now()
	err := w.Backend.Renew(ctx, batch, out)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range batch {
		if out[i] == renewal.Renewed {
			w.ends[l.Key] = sent.Add(l.TTL)
		}
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

// faultFor returns the fault of a batch, or "". No key fails twice in a row.
func (w *faultStore) faultFor(batch []driver.Lease) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.on || w.fault == "steal" {
		return ""
	}
	if w.fault == "hang" {
		return "hang"
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
		return ""
	}
	w.errors++
	return "errors"
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
