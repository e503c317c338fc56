// Package storekit is shared by packages lock and quorumstore. It releases leases in the
// background and at Close, recognizes permanent errors, and closes stores.
package storekit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// ErrExited is the outcome of a call of a store that did not return, because the store
// ended the goroutine.
var ErrExited = errors.New("the store has ended the goroutine of the call")

// IsPermanent reports whether err is a definite answer that a retry cannot change. After
// any other error the request may have been executed.
func IsPermanent(err error) bool {
	if errors.Is(err, driver.ErrUnavailable) {
		return false
	}
	return errors.Is(err, driver.ErrWrongType) || errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrNotAcquired) ||
		errors.Is(err, driver.ErrBadKey) || errors.Is(err, driver.ErrBadTTL) || errors.Is(err, driver.ErrBadMembers) ||
		errors.Is(err, errors.ErrUnsupported)
}

// isReleased reports whether a lease is gone after a release that returned err.
func isReleased(err error) bool { return err == nil || errors.Is(err, driver.ErrNotHeld) }

// Close closes a store by its Shutdown or Close, if it has one.
func Close(ctx context.Context, store driver.Store) error {
	switch store := store.(type) {
	case interface {
		Shutdown(ctx context.Context) error
	}:
		return store.Shutdown(ctx)
	case io.Closer:
		return store.Close()
	}
	return nil
}

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
