package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// An error must name its lock, because a log may have no other context.
func TestErrorsNameThePackageAndTheKeyOnce(t *testing.T) {
	waiting(t, &lock.Options{MaxWaiters: 1}, func(t *testing.T, b *bench) {
		says := func(want string, err error) {
			t.Helper()
			require.EqualError(t, err, want)
		}
		lockFor := func(ctx context.Context, l lock.Locker) error {
			_, err := l.Lock(ctx)
			return err
		}
		says(`lock: "k": the context is nil`, lockFor(nil, b.Mutex("k")))
		says(`lock: force the release of "k": not held`, b.ForceRelease(ctx, "k"))

		held := b.lock("k")
		short, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("out of timeout"))
		defer cancel()
		failed := make(chan error, 1)
		go func() { failed <- lockFor(short, b.Mutex("k")) }()
		settle(time.Millisecond)
		says(`lock: "k": too many waiters (Options.MaxWaiters)`, lockFor(ctx, b.Mutex("k")))
		says(`lock: "k": not acquired: out of timeout`, <-failed)
		says(`lock: "k": not acquired: out of timeout`, lockFor(short, b.Mutex("k")))
		require.NoError(t, held.Unlock(ctx))

		held = b.lock("k")
		b.loseRequests(always(locktest.Release, errIO))
		says(`lock: unlock "k": not confirmed yet: store unavailable: connection reset`, held.Unlock(ctx))
		b.loseRequests(always(locktest.Acquire, errIO))
		_, err := b.Mutex("j").TryLock(ctx)
		says(`lock: "j": store unavailable: connection reset`, err)
		b.loseRequests(always(locktest.Acquire, fmt.Errorf("store: acquire: %w", errIO)))
		_, err = b.Mutex("j").TryLock(ctx)
		says(`lock: "j": store unavailable: store: acquire: connection reset`, err)
		ending, end := context.WithCancelCause(ctx)
		b.loseRequests(func(context.Context, locktest.Op) error {
			end(errors.New("out of patience"))
			return &lock.HeldError{Key: "j"}
		})
		_, err = b.Mutex("j").TryLock(ending)
		says(`lock: not acquired: out of patience: "j" is held by another, or waited for`, err)
		b.heal()

		require.NoError(t, b.Close(ctx))
		_, err = b.Inspect(ctx, "k")
		says(`lock: inspect "k": client is closed`, err)
		says(`lock: this Client was not made by New`, new(lock.Client).Close(ctx))
	})
}

const lostText = `lease lost: no longer owned`

func TestALossNamesTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		first := b.reentrant("k")
		again, inside := b.again(first)
		whole := lockAll(t, b.all("a", "b"))
		b.mem.Delete("k")
		b.mem.Delete("b")
		<-first.Done()
		<-again.Done()
		<-whole.Done()
		<-inside.Done()
		for _, err := range []error{first.Err(), again.Err(), context.Cause(inside)} {
			require.EqualError(t, err, `lock: "k": `+lostText)
			require.ErrorIs(t, err, lock.ErrLost)
			require.ErrorIs(t, err, first.Err(), "the answer does not change")
			var lost *renewal.LostError
			require.ErrorAs(t, err, &lost)
			assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		}
		require.EqualError(t, whole.Err(), `lock: "b": `+lostText)
		require.EqualError(t, whole.Unlock(ctx), `lock: unlock "b": `+lostText)
		require.EqualError(t, again.Unlock(ctx), `lock: unlock "k": `+lostText)
		require.EqualError(t, again.Err(), `lock: "k": `+lostText)
		require.EqualError(t, first.Unlock(ctx), `lock: unlock "k": `+lostText)
	})
}

// The wheel fires a few milliseconds after the deadline, so Err notices the loss first.
func TestALossThatNoTimerHasToldOfNamesTheKey(t *testing.T) {
	for _, look := range []func(*lock.Held) error{
		func(h *lock.Held) error { return h.Err() },
		func(h *lock.Held) error { return h.Unlock(ctx) },
	} {
		bubbleWith(t, &lock.Options{Terms: lock.Terms{Fixed: true}}, func(t *testing.T, b *bench) {
			again, _ := b.again(b.reentrant("k"))
			time.Sleep(time.Until(again.Deadline()))
			require.ErrorIs(t, look(again), lock.ErrLost)
			require.EqualError(t, again.Err(), `lock: "k": lease lost: its fixed TTL of 30s ended`)
		})
	}
}

// If the function returns the cause of its ctx, Do does not report the loss a second time.
func TestDoTellsOfALossOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		lose := func(then func(ctx context.Context) error) error {
			return lock.Do(ctx, b.Mutex("k"), func(ctx context.Context, _ *lock.Held) error {
				b.mem.Delete("k")
				<-ctx.Done()
				return then(ctx)
			})
		}
		err := lose(func(ctx context.Context) error { return fmt.Errorf("work: %w", context.Cause(ctx)) })
		require.EqualError(t, err, `work: lock: "k": `+lostText)
		require.ErrorIs(t, err, lock.ErrLost)

		other := &renewal.LostError{Reason: renewal.ReasonNotOwned}
		err = lose(func(context.Context) error { return other })
		require.EqualError(t, err, `lock: "k": `+lostText+"; the function returned: renewal: "+lostText, "that of another lock is not this one's")
		require.ErrorIs(t, err, error(other))

		err = lose(func(ctx context.Context) error { return ctx.Err() })
		require.EqualError(t, err, `lock: "k": `+lostText)
		require.NotErrorIs(t, err, context.Canceled, "the ctx of Do has not ended")
		err = lose(func(context.Context) error { return nil })
		require.EqualError(t, err, `lock: "k": `+lostText)
		require.ErrorIs(t, err, lock.ErrLost)
	})
}
