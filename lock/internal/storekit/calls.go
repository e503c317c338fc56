// The calls of a store under way, which end when it is closed.

package storekit

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Calls counts the calls of a store that are under way, and ends them when the store is closed. A goroutine that belongs
// to no call uses Enter and Leave.
type Calls struct {
	basic.Gate
	Ctx    context.Context // ends when the store is closed; its cause is driver.ErrStoreClosed
	cancel context.CancelCauseFunc
}

// NewCalls returns the calls of an open store. End must follow.
func NewCalls() *Calls {
	c := new(Calls)
	c.Ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Begin begins a call. Its context ends with ctx, with the store, and after bound if that is above 0. The call must call
// end when it returns.
func (c *Calls) Begin(ctx context.Context, bound time.Duration) (_ context.Context, end func(), err error) {
	if err := basic.Cause(ctx); err != nil {
		return nil, nil, err
	}
	if !c.Enter() {
		return nil, nil, driver.ErrStoreClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.Ctx, func() { cancel(driver.ErrStoreClosed) })
	free := func() {}
	if bound > 0 {
		ctx, free = context.WithTimeoutCause(ctx, bound, driver.NoAnswerError(bound))
	}
	return ctx, func() {
		free()
		stop()
		cancel(nil)
		c.Leave()
	}, nil
}

// End ends all calls and refuses further ones. The channel is closed when no call is under way any more.
func (c *Calls) End() <-chan struct{} {
	ended := c.Close()
	c.cancel(driver.ErrStoreClosed)
	return ended
}

// Each calls f for 0 to n-1, on at most so many goroutines at one time, and returns the first error by the order of the
// numbers.
func Each(n, most int, f func(i int) error) error {
	errs, busy := make([]error, n), make(chan struct{}, most)
	var wg sync.WaitGroup
	for i := range n {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}
