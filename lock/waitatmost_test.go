package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// The time bounds the wait and not the work.
func TestWaitAtMostBoundsTheWait(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		a := b.Mutex("a")
		began := time.Now()
		err := lock.Do(ctx, lock.WaitAtMost(a, time.Second), func(ctx context.Context, held *lock.Held) error {
			waited := time.Now()
			_, err := lock.WaitAtMost(a, time.Second).Lock(context.Background())
			assert.Equal(t, time.Second, time.Since(waited))
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NotErrorIs(t, err, lock.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, `lock: "a": not acquired: waited for 1s`)

			time.Sleep(time.Hour)
			assert.True(t, held.Valid())
			return ctx.Err()
		})
		require.NoError(t, err)
		assert.Equal(t, time.Hour+time.Second, time.Since(began))
	})
}

// A time of 0 means TryLock.
func TestWaitAtMostZeroTries(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		a := b.Mutex("a")
		h, err := lock.WaitAtMost(a, 0).Lock(ctx)
		require.NoError(t, err)
		began := time.Now()
		_, err = lock.WaitAtMost(a, 0).Lock(ctx)
		var taken *lock.HeldError
		require.ErrorAs(t, err, &taken)
		_, err = lock.WaitAtMost(a, time.Hour).TryLock(ctx)
		require.ErrorAs(t, err, &taken)
		assert.Zero(t, time.Since(began))
		require.NoError(t, h.Unlock(ctx))
	})
}

// If the caller's context ends first, its cause is the reason.
func TestWaitAtMostEndsWithItsContext(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		a := b.Mutex("a")
		h, err := a.Lock(ctx)
		require.NoError(t, err)
		errShutdown := errors.New("shutdown")
		ending, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(errShutdown) })
		_, err = lock.WaitAtMost(a, time.Minute).Lock(ending)
		require.ErrorIs(t, err, errShutdown)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestWaitAtMostRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for want, l := range map[string]lock.Locker{
			"lock: WaitAtMost: the lock is nil":           lock.WaitAtMost(nil, time.Second),
			"lock: WaitAtMost: the time -1ns is negative": lock.WaitAtMost(b.Mutex("a"), -1),
		} {
			_, err := l.Lock(ctx)
			require.EqualError(t, err, want)
			_, err = l.TryLock(ctx)
			require.EqualError(t, err, want)
		}
		for _, d := range []time.Duration{0, time.Second} {
			_, err := lock.WaitAtMost(b.Mutex("a"), d).Lock(noContext)
			require.EqualError(t, err, "lock: the context is nil")
		}
		_, err := lock.Multi(b.Mutex("a"), lock.WaitAtMost(b.Mutex("a"), time.Second)).Lock(ctx)
		require.EqualError(t, err, `lock: lock 1 of Multi is lock 0 again, and would wait for it: "a"`)
	})
}
