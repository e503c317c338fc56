package redislock

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

// TestPackageLockSharesTheLocks is the step from this package, or from the original, to package
// lock with the same keys.
func TestPackageLockSharesTheLocks(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		ctx, rdb, key := t.Context(), shared.Server(t).Client(t), newKey(t)
		store, err := redlock.New(rdb, nil)
		require.NoError(t, err)
		client, err := lock.New(store, &lock.Options{
			Logger:  slog.New(slog.DiscardHandler),
			Backoff: lock.ConstantBackoff(time.Millisecond),
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close(context.Background())) })

		got, err := l.obtain(ctx, rdb, key, time.Minute, &options{metadata: "who"})
		require.NoError(t, err)
		_, err = client.Mutex(key).TryLock(ctx)
		assert.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, got.Release(ctx))

		held, err := client.Mutex(key).TryLock(ctx)
		require.NoError(t, err)
		_, err = l.obtain(ctx, rdb, key, time.Minute, nil)
		assert.ErrorIs(t, err, l.notObtained)
		assert.ErrorIs(t, got.Release(ctx), l.notHeld)
		require.NoError(t, held.Unlock(ctx))

		counter := 0 // the race detector reports two holders
		together(4, func(i int) {
			for range 50 {
				if i%2 == 0 {
					got, err := l.obtain(ctx, rdb, key, time.Minute, &options{retry: l.linear(time.Millisecond)})
					if assert.NoError(t, err) {
						counter++
						assert.NoError(t, got.Release(ctx))
					}
					continue
				}
				held, err := client.Mutex(key).Lock(ctx)
				if assert.NoError(t, err) {
					counter++
					assert.NoError(t, held.Unlock(ctx))
				}
			}
		})
		assert.Equal(t, 200, counter)
		assert.Zero(t, rdb.Exists(ctx, key).Val())
	})
}
