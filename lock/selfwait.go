package lock

import (
	"context"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// acquireOnce is acquire for a lock that is not reentrant. It returns ErrHeldByContext if
// the call would wait for a handle that its own ctx comes from.
func (c *Client) acquireOnce(ctx context.Context, r driver.Request, wait bool, o *observation) (*Held, error) {
	if c.waitsForItself(ctx, r) {
		err := ErrHeldByContext
		if r.Mode == driver.Exclusive {
			err = fmt.Errorf("%w; use a Reentrant", err)
		}
		return nil, failed("", r.Key, err)
	}
	return c.acquire(ctx, r, wait, o)
}

// waitsForItself reports whether a request would wait for a handle that ends ctx when it is
// unlocked. Such a Lock never succeeds: ctx ends before the lock is free.
//
// A ctx that never ends, such as that of [context.WithoutCancel], may belong to a task that
// outlives the handle. The request then waits for it as for any other holder. A request for
// a permit is never refused, because others may raise the limit.
func (c *Client) waitsForItself(ctx context.Context, r driver.Request) bool {
	if ctx == nil || ctx.Done() == nil {
		return false
	}
	for o := c.owners(ctx); o != nil; o = o.outer {
		if o.key == r.Key && excludes(o.mode, r.Mode) && o.held.Err() == nil {
			return ctx.Err() == nil
		}
	}
	return false
}

// excludes reports whether a holder in one mode keeps out any request in another mode.
func excludes(held, wanted driver.Mode) bool {
	switch held {
	case driver.Exclusive:
		return wanted == driver.Exclusive
	case driver.Write:
		return wanted == driver.Write || wanted == driver.Read
	case driver.Read:
		return wanted == driver.Write
	}
	return false
}
