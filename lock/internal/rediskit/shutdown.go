// This file is about the Close and Shutdown of a store.

package rediskit

import (
	"context"
	"fmt"
	"time"
)

const closeTimeout = time.Second

var errStillRunning = fmt.Errorf("a function of the redis.Options is still running after %v", closeTimeout)

// Close calls the Shutdown of a store with a ctx that ends after one second.
func Close(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout, errStillRunning)
	defer cancel()
	return shutdown(ctx)
}

// Shutdown calls end on another goroutine and returns its error. If ctx ends first, Shutdown returns
// the cause of ctx, and the goroutine ends when end returns.
func Shutdown(ctx context.Context, end func() error) error {
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
