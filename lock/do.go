package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/leasewheel/leasewheel/renewal"
)

// Do waits for the lock, calls f while it holds the lock, and unlocks it. The deadline of ctx
// bounds the wait and the work together; [WaitAtMost] bounds the wait alone.
//
// The handle that f gets has the fencing token, the deadline, and Valid, for a check right
// before a step that needs the lock. The handle of a [Multi] has no token of its own; see
// [Held.Handles]. The ctx of f is cancelled when the lock is lost; its cause is the reason.
// It carries the ownership; see [Held.Context].
//
// A loss need not stop the work. f may use ctx and stop; or go on with a context of its own, such
// as [context.WithoutCancel] of ctx, and call [Held.Valid] before the step that matters; or send
// [Held.Token] to a resource that refuses former holders. The [guide] says when to use which.
//
// Do returns the error of Lock or of f. If the lock was lost before f returned, the error
// also matches ErrLost, even if f returned nil, because the work was not protected to its
// end. The same holds for ErrClosed. If f then returns a plain context.Canceled, although
// ctx has not ended, Do returns the loss alone. A release that is not confirmed is logged and not
// returned, because the work is done; Do waits for it as long as Unlock does, at most 3 s. If f panics,
// the lock is released. f may call Unlock itself, to release the lock before it returns, or
// Detach, to leave it to another process: Do then releases nothing and returns the error of f.
//
// [guide]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#lost-does-not-always-mean-cancel
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
	err, unlocked := runHeld(ctx, held, f)
	var lost *renewal.LostError
	switch {
	case errors.As(unlocked, &lost) && errors.Is(err, lost): // f returned the loss
		return err
	case errors.Is(unlocked, ErrLost), errors.Is(unlocked, ErrClosed):
		return lossOf(ctx, held, unlocked, err)
	}
	logRelease(held, unlocked)
	return err
}

// lossOf returns the error of a Do whose lock ended before f returned err. An f that only
// passes on that its context has ended adds nothing to the loss.
func lossOf(ctx context.Context, held *Held, unlocked, err error) error {
	loss := cmp.Or(held.Err(), unlocked)
	if !errors.Is(loss, ErrLost) && !errors.Is(loss, ErrClosed) {
		loss = unlocked
	}
	loss = failed("", held.Key(), loss)
	if err == nil || err == context.Canceled && ctx.Err() == nil { //nolint:errorlint // an error with more text is kept
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
	if unlocked == nil || errors.Is(unlocked, ErrNotHeld) || errors.Is(unlocked, ErrLost) || errors.Is(unlocked, ErrClosed) {
		return
	}
	held.handle.logger().Warn("lock: release not confirmed", slog.String("key", held.Key()), slog.Any("error", unlocked))
}
