package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// witness stands between the client and its store. It makes the store fail, and
// it knows for each key up to when the store keeps it at least: a TTL after the
// last request that was executed had been sent. A holder that is told of its loss
// by then is told in time.
type witness struct {
	*backend
	fault string

	mu     sync.Mutex // guards all below
	on     bool       // the fault
	kept   map[string]time.Time
	failed map[string]bool // the last renewal of the key failed
	calls  int
	errors int // made
}

var errInjected = errors.New("injected: connection reset")

// failEvery is how many renewals pass for one that fails with -fault errors.
const failEvery = 4

func newWitness(b *backend, c config) *witness {
	return &witness{backend: b, fault: c.fault, kept: make(map[string]time.Time, c.leases), failed: make(map[string]bool)}
}

// begin switches the fault on.
func (w *witness) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = true
}

func (w *witness) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	sent := time.Now()
	l, err := w.backend.Acquire(ctx, r)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.kept[r.Key] = sent.Add(r.TTL)
	}
	return l, err
}

func (w *witness) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	switch w.fate(batch) {
	case "hang":
		<-ctx.Done()
		return context.Cause(ctx)
	case "errors":
		return errInjected
	}
	sent := time.Now()
	err := w.backend.Renew(ctx, batch, out)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, l := range batch {
		if out[i] == renewal.Renewed {
			w.kept[l.Key] = sent.Add(l.TTL)
		}
	}
	return err
}

// fate says what happens to a batch. No key fails twice in a row.
func (w *witness) fate(batch []lock.Lease) string {
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

// keptUntil returns the instant up to which the store has the key at least.
func (w *witness) keptUntil(key string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept[key]
}

func (w *witness) injected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errors
}
