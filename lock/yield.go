// Holders that learn that others wait: Wanted, and a Do that ends its function for them.

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Wanted returns a channel that is closed when another Lock waits for the lock, of this client or
// another one: soon after it has begun to wait, or at the next renewal if no message comes. The
// channel stays closed. Without [Terms].Yields it is nil. For a [Multi] it is closed when others
// wait for any of its locks.
func (h *Held) Wanted() <-chan struct{} {
	if want, _ := h.lease().wanted(); want != nil {
		return want.Done()
	}
	return nil
}

// yielding returns f with a context that also ends once the lock has been held for its Terms.YieldAfter and others wait.
func yielding(held *Held, f func(context.Context, *Held) error) func(context.Context, *Held) error {
	want, after := held.handle.wanted()
	if want == nil || after == 0 {
		return f
	}
	return func(outer context.Context, _ *Held) error {
		ctx, cancel := context.WithCancelCause(outer)
		defer cancel(nil)
		timer := time.AfterFunc(after, func() {
			stop := context.AfterFunc(want, func() { cancel(ErrWanted) })
			context.AfterFunc(ctx, func() { stop() })
		})
		defer timer.Stop()
		err := f(ctx, held)
		if err == context.Canceled && outer.Err() == nil && errors.Is(context.Cause(ctx), ErrWanted) { //nolint:errorlint // an error with more text is kept
			return ErrWanted
		}
		return err
	}
}

// watch returns a context that ends when others wait for the lock of a lease. The store watches until
// the lease ends.
func (c *core) watch(entry *renewal.Entry[driver.Lease], lease driver.Lease) context.Context {
	want, tell := context.WithCancel(context.Background())
	entry.AfterFunc(c.store.Watch(lease, tell))
	return want
}

func (s *heldLease) wanted() (context.Context, time.Duration) {
	return s.want, s.client.terms.YieldAfter
}

func (g *multiHandle) wanted() (context.Context, time.Duration) { return g.want, g.yieldAfter }
