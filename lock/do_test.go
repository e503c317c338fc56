package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func TestDoYieldsAfterATimeIfOthersWait(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		m := b.With(lock.Terms{YieldAfter: time.Minute}).Mutex("k")
		work := func(returned error) (took time.Duration, err error) {
			start := time.Now()
			err = lock.Do(ctx, m, func(ctx context.Context, _ *lock.Held) error {
				<-ctx.Done()
				took = time.Since(start)
				assert.Equal(t, lock.ErrWanted, context.Cause(ctx))
				if returned == nil {
					return ctx.Err()
				}
				return returned
			})
			return took, err
		}
		turns := make(chan time.Time)
		wait := func(after time.Duration) {
			time.Sleep(after)
			held, got := b.lock("k"), time.Now()
			assert.NoError(t, held.Unlock(ctx))
			turns <- got
		}
		start := time.Now()
		go wait(time.Second)
		took, err := work(nil)
		assert.Equal(t, time.Minute, took, "a waiter comes before that time")
		require.ErrorIs(t, err, lock.ErrWanted)
		assert.Equal(t, time.Minute, (<-turns).Sub(start), "the waiter has its turn")

		go wait(time.Hour)
		took, err = work(assert.AnError)
		assert.Equal(t, time.Hour, took, "a waiter comes after that time")
		assert.Equal(t, assert.AnError, err)
		<-turns
	})
}

func TestDoYieldsToNobody(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		never := func(context.Context, *lock.Held) error { panic("called") }
		require.ErrorContains(t, lock.Do(ctx, b.With(lock.Terms{YieldAfter: -1}).Mutex("k"), never), "Terms.YieldAfter must be at least 0")
		m := b.With(lock.Terms{YieldAfter: 1}).Mutex("k")
		require.NoError(t, lock.Do(ctx, m, func(ctx context.Context, held *lock.Held) error {
			time.Sleep(time.Hour)
			assert.False(t, closed(held.Wanted()))
			return ctx.Err()
		}))
	})
}

// A lock may be lost after its function was told to yield.
func TestDoOfALostLockDoesNotYield(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		err := lock.Do(ctx, b.Mutex("k"), func(_ context.Context, held *lock.Held) error {
			b.mem.Delete("k")
			<-held.Done()
			return lock.ErrWanted
		})
		require.ErrorIs(t, err, lock.ErrLost)
		require.NotErrorIs(t, err, lock.ErrWanted)
	})
}
