//go:build !race

package wheel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// allocs returns the mean number of allocations of one call of f, once a wheel has the
// memory that it needs.
func allocs(t *testing.T, o wheel.Options, f func(w *wheel.Wheel)) float64 {
	t.Helper()
	w, err := wheel.New(&o)
	require.NoError(t, err)
	defer w.Close()
	for range 100 {
		f(w)
	}
	return testing.AllocsPerRun(1000, func() { f(w) })
}

func TestScheduleAndStopDoNotAllocate(t *testing.T) {
	task := taskFunc(nothing)
	for name, o := range map[string]wheel.Options{"no limit": {}, "limit": {MaxPending: 10}} {
		for _, d := range []time.Duration{0, time.Second, time.Hour, 365 * 24 * time.Hour} {
			assert.Zero(t, allocs(t, o, func(w *wheel.Wheel) {
				timer, err := w.Schedule(d, task)
				require.NoError(t, err)
				timer.Stop()
			}), "%s, %v", name, d)
		}
	}
}

func TestResetDoesNotAllocate(t *testing.T) {
	var timer schedule.Timer
	delays := []time.Duration{time.Minute, time.Hour, time.Second}
	i := 0
	assert.Zero(t, allocs(t, wheel.Options{}, func(w *wheel.Wheel) {
		if timer == (schedule.Timer{}) {
			var err error
			timer, err = w.Schedule(time.Hour, taskFunc(nothing))
			require.NoError(t, err)
		}
		i++
		require.True(t, timer.Reset(delays[i%len(delays)]))
		_, ok := timer.Deadline()
		require.True(t, ok)
	}))
}

// A timer that fires does not allocate, nor does one that is reset in its Run. An Executor
// takes one allocation for each Run.
func TestFiringDoesNotAllocate(t *testing.T) {
	for name, test := range map[string]struct {
		executor func(run func())
		want     float64 // per Run
	}{
		"wheel's goroutine": {nil, 0},
		"executor":          {func(run func()) { run() }, 1},
	} {
		for _, d := range []time.Duration{100 * time.Millisecond, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				const runs = 100
				left, done := 0, make(chan struct{}, 1)
				task := taskFunc(func(self schedule.Timer) {
					if left--; left > 0 {
						self.Reset(d)
						return
					}
					done <- struct{}{}
				})
				got := allocs(t, wheel.Options{Executor: test.executor}, func(w *wheel.Wheel) {
					left = runs
					_, err := w.Schedule(d, task)
					require.NoError(t, err)
					<-done
				})
				assert.InDelta(t, test.want, got/runs, 0.02, "%s, %v", name, d)
			})
		}
	}
}

// A caller of After allocates only if it is the first one of a tick.
func TestAfterDoesNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Zero(t, allocs(t, wheel.Options{}, func(w *wheel.Wheel) { w.After(time.Minute) }))
	})
}

// A context is one allocation, its CancelFunc, Done and the stop of AfterFunc one each. The func
// of AfterFunc has an entry of its own.
func TestAContextAllocatesLittle(t *testing.T) {
	for name, test := range map[string]struct {
		use  func(ctx context.Context)
		want float64
	}{
		"plain": {func(context.Context) {}, 2},
		"Done":  {func(ctx context.Context) { ctx.Done() }, 3},
		"AfterFunc": {func(ctx context.Context) {
			ctx.(interface{ AfterFunc(f func()) func() bool }).AfterFunc(func() {})()
		}, 5},
	} {
		got := allocs(t, wheel.Options{}, func(w *wheel.Wheel) {
			ctx, cancel := schedule.WithTimeout(context.Background(), w, time.Hour)
			test.use(ctx)
			cancel()
		})
		assert.InDelta(t, test.want, got, 0.01, name)
	}
}
