// Package storekit is shared by packages lock and quorumstore. It releases leases in the
// background and at Close.
package storekit

import (
	"context"
	"errors"
	"fmt"
)

// ErrExited is the outcome of a call of a store that did not return, because the store
// ended the goroutine.
var ErrExited = errors.New("the store has ended the goroutine of the call")

// Await waits until done is closed. If ctx ends first, it returns an error that names what is
// still in progress.
func Await(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done: // even if ctx has ended
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lock: Close: %s is still under way: %w", what, context.Cause(ctx))
	}
}
