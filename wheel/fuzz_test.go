package wheel_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// FuzzOptions calls New with random options. New returns an error that names the field, or
// the timers of the wheel fire on time.
func FuzzOptions(f *testing.F) {
	for _, o := range []struct {
		tick             int64
		buckets, pending int
		delay            int64
	}{
		{},
		{tick: 1},
		{tick: 1000, delay: 1},
		{tick: math.MaxInt64, delay: 1},
		{tick: -1},
		{tick: math.MaxInt64, delay: math.MaxInt64},
		{tick: 1 << 62, delay: 1 << 62},
		{tick: int64(time.Hour), delay: int64(time.Minute)},
		{buckets: 64, delay: int64(24 * time.Hour)},
		{buckets: 65},
		{buckets: 63},
		{buckets: 1 << 20},
		{buckets: 1<<20 + 1},
		{buckets: math.MinInt},
		{pending: 1},
		{pending: -1},
		{pending: math.MaxInt},
		{delay: math.MinInt64},
	} {
		f.Add(o.tick, o.buckets, o.pending, o.delay)
	}
	f.Fuzz(func(t *testing.T, tick int64, buckets, pending int, delay int64) {
		synctest.Test(t, func(t *testing.T) {
			w, err := wheel.New(&wheel.Options{Tick: time.Duration(tick), Buckets: buckets, MaxPending: pending})
			if err != nil {
				require.ErrorContains(t, err, "wheel: Options.")
				return
			}
			defer w.Close()
			begun, fired := time.Now(), make(chan time.Duration, 1)
			timer, err := w.Schedule(time.Duration(delay), taskFunc(func(schedule.Timer) { fired <- time.Since(begun) }))
			require.NoError(t, err)
			if tick == 0 {
				tick = int64(100 * time.Millisecond)
			}
			const reach = int64(100 * 365 * 24 * time.Hour) // less than the range of a bubble's clock
			if tick > reach || delay > reach {
				assert.True(t, timer.Stop())
				return
			}
			late := <-fired - max(time.Duration(delay), 0)
			assert.GreaterOrEqual(t, late, time.Duration(0))
			assert.LessOrEqual(t, late, time.Duration(tick))
		})
	})
}
