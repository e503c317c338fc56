package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func TestDoGivesTheHandle(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var last *lock.Held
		require.NoError(t, lock.Do(ctx, b.Mutex("k"), func(_ context.Context, held *lock.Held) error {
			last = held
			assert.True(t, held.Valid())
			assert.Equal(t, "k", held.Key())
			assert.Positive(t, held.Token())
			assert.True(t, held.Deadline().After(time.Now()))
			return nil
		}))
		assert.False(t, last.Valid(), "Do has unlocked it")

		both := lock.Multi(b.Mutex("a"), b.Mutex("b"))
		require.NoError(t, lock.Do(ctx, both, func(_ context.Context, held *lock.Held) error {
			assert.Zero(t, held.Token(), "tokens belong to one key")
			require.Len(t, held.Handles(), 2)
			for _, h := range held.Handles() {
				assert.Positive(t, h.Token())
			}
			return nil
		}))
	})
}

func TestDoAcceptsAnUnlockInside(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		require.NoError(t, lock.Do(ctx, b.Mutex("k"), func(ctx context.Context, held *lock.Held) error {
			err := held.Unlock(ctx)
			assert.Zero(t, b.mem.Len())
			return err
		}))
	})
}
