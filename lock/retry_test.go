package lock_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// each returns a Backoff that is always d.
func each(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func TestTheBackoffOfTheOptions(t *testing.T) {
	bubbleWith(t, &lock.Options{Backoff: each(time.Second)}, func(t *testing.T, b *bench) {
		h := b.lock("k")
		before := b.calls(locktest.Acquire)
		go func() {
			time.Sleep(4500 * time.Millisecond)
			assert.NoError(t, h.Unlock(ctx))
		}()
		start := time.Now()
		b.lock("k")
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, 6, b.calls(locktest.Acquire)-before, "at once, and after each second")
	})
}

// A store may report that the blocking lease never ends, or that its end is unknown.
func TestBackoffWithoutAnEndInSight(t *testing.T) {
	for _, left := range []time.Duration{math.MaxInt64, 0} {
		bubbleWith(t, &lock.Options{Backoff: each(time.Second)}, func(t *testing.T, b *bench) {
			b.loseRequests(func(context.Context, locktest.Op) error {
				if b.calls(locktest.Acquire) > 100 { // otherwise it would try without a pause, for ever
					return lock.ErrWrongType
				}
				return &lock.HeldError{ExpiresIn: left}
			})
			limited, cancel := context.WithTimeout(ctx, 4500*time.Millisecond)
			defer cancel()
			_, err := b.Mutex("k").Lock(limited)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			assert.Equal(t, 5, b.calls(locktest.Acquire), "at once, and after each second")
		})
	}
}
