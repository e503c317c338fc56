// A store whose renewals can be made to hang.

package demo

import (
	"context"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// faultStore is a store whose renewals can be made to hang. For each key it records the earliest time at
// which the store can grant the key again: a TTL after the last executed request was sent. The
// notice of a loss is in time if it comes before that.
type faultStore struct {
	*backend
	driver.Store                      // what the client calls
	renewed      func(sent time.Time) // is called after each renewal that the store has done; may be nil

	mu    sync.Mutex    // guards all fields below
	hangs chan struct{} // is closed when renewals get answers again; nil while they do
	ends  map[string]time.Time
}

func newFaultStore(b *backend) *faultStore {
	w := &faultStore{backend: b, ends: map[string]time.Time{}}
	w.Store = driver.Wrap(b.Store, w.around)
	return w
}

// hang lets renewals get no answer, nor be executed, until answer is called.
func (w *faultStore) hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs = make(chan struct{})
}

// answer ends hang. Renewals that hang are then executed, unless their contexts have ended.
func (w *faultStore) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangs != nil {
		close(w.hangs)
		w.hangs = nil
	}
}

func (w *faultStore) around(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	if c.Name == "renew" {
		return w.renew(ctx, c, next)
	}
	sent := time.Now()
	err := next(ctx)
	if err == nil && (c.Name == "acquire" || c.Name == "wait") {
		if !c.Granted.Sent.IsZero() {
			sent = c.Granted.Sent
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends[c.Key] = sent.Add(c.Request.TTL)
	}
	return err
}

func (w *faultStore) renew(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	w.mu.Lock()
	hangs := w.hangs
	w.mu.Unlock()
	if hangs != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-hangs:
		}
	}
	sent := time.Now()
	err := next(ctx)
	done := false
	w.mu.Lock()
	for i, l := range c.Leases {
		if c.Outcomes[i] == renewal.Renewed {
			w.ends[l.Key] = sent.Add(l.TTL)
			done = true
		}
	}
	w.mu.Unlock()
	if done && w.renewed != nil {
		w.renewed(sent)
	}
	return err
}

// heldUntil returns the earliest time at which the store can grant the key again.
func (w *faultStore) heldUntil(key string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[key]
}
