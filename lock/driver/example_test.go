package driver_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A trace of the calls of a store. With OpenTelemetry, begin a span where this example
// numbers the call, pass its context to next, and end the span after that.
func ExampleWrap() {
	var calls atomic.Int64
	trace := func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
		n := calls.Add(1)
		err := next(ctx)
		var taken *driver.HeldError
		outcome := "ok"
		switch {
		case errors.As(err, &taken): // an answer, and no fault of the store
			outcome = "taken"
		case err != nil:
			outcome = "failed: " + err.Error()
		}
		fmt.Println("call", n, c.Name, c.Key, outcome)
		return err
	}
	client, err := lock.New(driver.Wrap(memstore.New(), trace), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	ctx := context.Background()
	held, err := client.Mutex("orders").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.Mutex("orders").TryLock(ctx)
	if err := held.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// call 1 wait orders ok
	// call 2 acquire orders taken
	// call 3 release orders ok
}
