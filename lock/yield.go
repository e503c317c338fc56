// Holders that learn that others wait: Wanted, and the option of Do that ends its function for them.

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Wanted returns a channel that is closed when another Lock waits for the lock, of this client or
// another one: soon after it has begun to wait, or at the next renewal if no message comes. The
// channel stays closed. Without [Terms].Yields it is nil. For a [Multi] it is closed when others
// wait for any of its locks.
func (h *Held) Wanted() <-chan struct{} {
	if want := h.lease().wanted(); want != nil {
		return want.Done()
	}
	return nil
}

// YieldAfter is an option of [Do]: the ctx of its function ends, with the cause [ErrWanted], once
// the lock has been held for so long and others wait for it. The function then brings its work to a
// point from which the next one goes on, and returns; if it returns the plain error of its ctx, Do
// returns ErrWanted. The lock needs [Terms].Yields.
type YieldAfter time.Duration

// around returns f with a context that also ends once the time has passed and others wait.
func (d YieldAfter) around(f func(context.Context, *Held) error) func(context.Context, *Held) error {
	return func(outer context.Context, held *Held) error {
		want := held.handle.wanted()
		if want == nil {
			return errors.New("lock: Do: YieldAfter needs a lock with Terms.Yields")
		}
		ctx, cancel := context.WithCancelCause(outer)
		defer cancel(nil)
		timer := time.AfterFunc(time.Duration(d), func() {
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

// checkYields refuses terms that yield if the store cannot tell a holder that others wait.
func (c *core) checkYields(t Terms) error {
	if t.Yields && c.can.Yields == 0 {
		return fmt.Errorf("lock: the store cannot tell a holder that others wait (Terms.Yields): %w", errors.ErrUnsupported)
	}
	return nil
}

// checkYielding refuses a request that cannot yield, which the client does.
func (c *Client) checkYielding(m driver.Mode) error {
	if !c.can.Yields.Has(m) {
		return fmt.Errorf("a %s cannot yield (Terms.Yields): %w", kindOf(m), errors.ErrUnsupported)
	}
	return nil
}

func (s *heldLease) wanted() context.Context   { return s.want }
func (g *multiHandle) wanted() context.Context { return g.want }

// anyWanted returns a context that ends with the first of those of the handles, nil if there is none.
func anyWanted(handles []*Held) (want context.Context) {
	var tell context.CancelFunc
	for _, h := range handles {
		if one := h.handle.wanted(); one != nil {
			if want == nil {
				want, tell = context.WithCancel(context.Background())
			}
			context.AfterFunc(one, tell)
		}
	}
	return want
}
