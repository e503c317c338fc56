package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// endedError is the cause of the context of a call of the store.
type endedError struct {
	text string
	err  error
}

func (e *endedError) Error() string { return e.text }
func (e *endedError) Unwrap() error { return e.err }

var (
	errCallerCanceled = &endedError{"the caller's context has been canceled", context.Canceled}
	errCallerLate     = &endedError{"the caller's deadline has passed", context.DeadlineExceeded}
	errClientClosing  = &endedError{"the client is being closed", context.Canceled}
)

// isEnd reports whether a call of the store failed because its context had ended.
func isEnd(err error) bool { return errors.As(err, new(*endedError)) }

// causeOf returns the cause of a context that has ended, and nil otherwise.
func causeOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	return cmp.Or(context.Cause(ctx), err) // a context of another type may have no cause
}

// ended returns why a call must be given up: ErrClosed if this client is closed, or the
// cause of the caller's context. It returns nil if neither has ended.
func (c *core) ended(caller context.Context) error {
	if c.life.over.Load() {
		return ErrClosed
	}
	return causeOf(caller)
}

// reveal returns the error of a call that failed with err and acquires nothing. If the
// client or the caller's context has ended, the error matches the reason. If the store
// gave no answer, it matches ErrUnavailable.
func (c *core) reveal(caller context.Context, err error) error {
	cause := c.ended(caller)
	switch {
	case err == nil:
		return nil
	case cause == nil:
		return unavailable(err)
	case c.life.over.Load():
		return cause
	case storekit.IsPermanent(err) || errors.Is(err, ErrNotHeld):
		return fmt.Errorf("%w: %w", cause, basic.Unprefixed(err))
	}
	return &outcomeError{ErrUnavailable, cause, err}
}
