package lock

import (
	"context"
	"errors"
	"log/slog"

	"github.com/leasewheel/leasewheel/renewal"
)

// Do calls f while it holds the lock, which it waits for as Lock does. The ctx
// that f gets ends when the lock is lost, its cause telling why.
//
// Do returns the error of Lock, or that of f. If the lock was lost before f
// returned the error also matches ErrLost, even if f returned nil: what f did was
// not protected to its end; likewise with ErrClosed. A release that could not be
// confirmed is logged and not returned, for the work was done. If f panics the lock
// is released. The ctx of f carries the ownership: see [Reentrant].
func Do(ctx context.Context, l Locker, f func(ctx context.Context) error) error {
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
	case !held.stands():
		return errNoHandle
	}
	returned := false
	defer func() {
		if !returned { // f panicked, or called runtime.Goexit
			_ = held.Unlock(ctx)
		}
	}()
	inner, stop := held.Context(ctx)
	defer stop()
	err = f(inner)
	returned = true

	unlocked := held.Unlock(ctx)
	var lost *renewal.LostError
	switch {
	case unlocked == nil:
		return err
	case errors.As(unlocked, &lost) && errors.Is(err, lost): // f tells of it itself
		return err
	case errors.Is(unlocked, ErrLost), errors.Is(unlocked, ErrClosed):
		return errors.Join(err, unlocked)
	case errors.Is(unlocked, ErrNotHeld): // f has unlocked it
		return err
	}
	held.hold.logger().Warn("lock: release not confirmed", slog.String("key", held.Key()), slog.Any("error", unlocked))
	return err
}
