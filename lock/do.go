// Do, which runs a function under a lock.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// Do waits for the lock, calls f while it holds the lock, and unlocks it. The deadline of ctx
// bounds the wait and the work together; [WaitAtMost] bounds the wait alone. The ctx of f is that
// of [Held.Context]: it ends when the lock is lost.
//
// Do returns the error of Lock or of f. It also matches ErrLost if the lock was lost before f
// returned, even if f returned nil, and ErrClosed if the client was closed. If f then returns a
// plain context.Canceled, although ctx has not ended, Do returns the loss alone. Do waits for the
// release as Unlock does, and logs a release that is not confirmed. If f panics, the lock is
// released. If f calls Unlock or Detach itself, Do releases nothing.
func Do(ctx context.Context, l Locker, f func(ctx context.Context, held *Held) error) error {
	switch {
	case l == nil:
		return errors.New("lock: Do: the lock is nil")
	case f == nil:
		return errors.New("lock: Do: the function is nil")
	}
	held, err := l.Lock(ctx)
	switch {
	case err != nil:
		return err
	case !held.ok():
		return errNoHandle
	}
	err, unlocked := runHeld(ctx, held, yielding(held, f))
	switch end := endOf(unlocked); {
	case end == endLost && errors.Is(err, lossIn(unlocked)): // f returned the loss
		return err
	case end == endLost, end == endClosed:
		return lossOf(ctx, held, unlocked, err)
	}
	logRelease(held, unlocked)
	return err
}

// lossOf returns the error of a Do whose lock ended before f returned err. An f that only
// passes on that its context has ended adds nothing to the loss.
func lossOf(ctx context.Context, held *Held, unlocked, err error) error {
	loss := cmp.Or(held.Err(), unlocked)
	if end := endOf(loss); end != endLost && end != endClosed {
		loss = unlocked
	}
	loss = failed("", held.Key(), loss)
	if err == nil || err == ErrWanted || err == context.Canceled && ctx.Err() == nil { //nolint:errorlint // an error with more text is kept
		return loss
	}
	return fmt.Errorf("%w; the function returned: %w", loss, err)
}

// runHeld calls f and then unlocks the lock, also if f panics or calls runtime.Goexit. It
// returns the errors of both.
func runHeld(ctx context.Context, held *Held, f func(context.Context, *Held) error) (err, unlocked error) {
	returned := false
	defer func() {
		if !returned {
			_ = held.Unlock(ctx)
		}
	}()
	inner, stop := held.Context(ctx)
	defer stop()
	err = f(inner, held)
	returned = true
	return err, held.Unlock(ctx)
}

// logRelease logs that a release is not confirmed. ErrNotHeld means that f has unlocked the
// lock itself.
func logRelease(held *Held, unlocked error) {
	if endOf(unlocked) == endUnknown {
		held.handle.logger().Warn("lock: release not confirmed", slog.String("key", held.Key()), slog.Any("error", unlocked))
	}
}
