// The Close and Shutdown of a store.

package rediskit

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

const closeTimeout = time.Second

var errStillRunning = fmt.Errorf("a function of the redis.Options is still running after %v", closeTimeout)

// Close calls the Shutdown of a store with a ctx that ends after one second.
func Close(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout, errStillRunning)
	defer cancel()
	return shutdown(ctx)
}

// Shutdown is the Shutdown of a store: it ends all calls of its client, and calls end on another
// goroutine, once. If ctx ends first, Shutdown returns the cause of ctx, and the goroutine ends when end
// returns. client is nil for a zero store. Errors begin with the name of the store.
func Shutdown(ctx context.Context, store string, client *redisconn.Client, closing *basic.Closing, end func() error) error {
	failed := func(err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: close: %w", store, err)
	}
	switch {
	case ctx == nil:
		return failed(ErrNilContext)
	case client == nil:
		return failed(ErrZeroStore)
	}
	return closing.Do(ctx, func() error {
		client.Cancel()
		return failed(within(ctx, end))
	})
}

// within returns the error of end, or the cause of ctx if that ends first.
func within(ctx context.Context, end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended: // both were ready
		return err
	default:
		return context.Cause(ctx)
	}
}
