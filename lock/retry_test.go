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

func TestConstantBackoff(t *testing.T) {
	constant := lock.ConstantBackoff(time.Second)
	bubbleWith(t, &lock.Options{Backoff: constant}, func(t *testing.T, b *bench) {
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
	assert.Equal(t, time.Second, constant(math.MaxInt))
}

// A store may report that the blocking lease never ends, or that its end is unknown.
func TestBackoffWithoutAnEndInSight(t *testing.T) {
	for _, left := range []time.Duration{math.MaxInt64, 0} {
		bubbleWith(t, &lock.Options{Backoff: lock.ConstantBackoff(time.Second)}, func(t *testing.T, b *bench) {
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

func TestExponentialBackoff(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		first, most time.Duration
		n           int
		want        time.Duration // upper bound; the lower bound is half of it
	}{
		{10 * ms, 250 * ms, -1, 10 * ms},
		{10 * ms, 250 * ms, 0, 10 * ms},
		{10 * ms, 250 * ms, 1, 20 * ms},
		{10 * ms, 250 * ms, 4, 160 * ms},
		{10 * ms, 250 * ms, 5, 250 * ms},
		{10 * ms, 250 * ms, math.MaxInt, 250 * ms},
		{10 * ms, math.MaxInt64, math.MaxInt, math.MaxInt64},
		{0, 0, 3, ms},
		{-time.Hour, 4 * ms, 1, 2 * ms},
		{time.Second, ms, 0, time.Second},
		{time.Second, ms, 9, time.Second},
	} {
		backoff := lock.ExponentialBackoff(tc.first, tc.most)
		least, most := tc.want, time.Duration(0)
		for range 1000 {
			d := backoff(tc.n)
			least, most = min(least, d), max(most, d)
		}
		assert.GreaterOrEqual(t, least, tc.want/2, "%+v", tc)
		assert.Less(t, most, tc.want, "%+v", tc)
		assert.Greater(t, most-least, tc.want/4, "at random: %+v", tc)
	}
}
