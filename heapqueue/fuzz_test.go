package heapqueue_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// FuzzOptions makes Schedulers with any options. NewScheduler returns an error that names
// the field, or a timer fires at its instant.
func FuzzOptions(f *testing.F) {
	for _, o := range []struct {
		workers, pending int
		delay            int64
	}{
		{},
		{workers: 256},
		{workers: 257},
		{workers: -1},
		{pending: 1},
		{pending: -1},
		{pending: math.MaxInt32},
		{pending: math.MaxInt},
		{pending: math.MinInt},
		{delay: 1},
		{delay: math.MaxInt64},
		{delay: math.MinInt64},
		{delay: int64(24 * time.Hour), workers: 4},
	} {
		f.Add(o.workers, o.pending, o.delay)
	}
	f.Fuzz(func(t *testing.T, workers, pending int, delay int64) {
		synctest.Test(t, func(t *testing.T) {
			s, err := heapqueue.NewScheduler(&heapqueue.Options{Workers: workers, MaxPending: pending})
			if err != nil {
				require.ErrorContains(t, err, "heapqueue: Options.")
				return
			}
			defer s.Close()
			begun, fired := time.Now(), make(chan time.Duration, 1)
			timer, err := s.Schedule(time.Duration(delay), taskFunc(func(schedule.Timer) { fired <- time.Since(begun) }))
			require.NoError(t, err)
			if delay > int64(200*365*24*time.Hour) { // the clock of a bubble does not reach it
				assert.True(t, timer.Stop())
				return
			}
			assert.Equal(t, max(time.Duration(delay), 0), <-fired)
		})
	})
}
