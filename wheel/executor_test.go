package wheel_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestAnExecutorLetsTasksBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond, Executor: func(run func()) { go run() }})
		require.NoError(t, err)
		var running, begun atomic.Int64
		for range 100 {
			_, err := w.Schedule(time.Second, taskFunc(func(schedule.Timer) {
				begun.Add(1)
				running.Add(1)
				time.Sleep(time.Minute)
				running.Add(-1)
			}))
			require.NoError(t, err)
		}
		start := time.Now()
		var at time.Duration
		_, err = w.Schedule(2*time.Second, taskFunc(func(schedule.Timer) { at = time.Since(start) }))
		require.NoError(t, err)
		advance(10 * time.Second)
		assert.EqualValues(t, 100, running.Load(), "all tasks run at the same time")
		assert.Equal(t, 2*time.Second, at, "the blocked tasks do not delay it")
		assert.Empty(t, w.Close())
		assert.Zero(t, running.Load(), "Close waits for all tasks")
		assert.EqualValues(t, 100, begun.Load(), "each task runs once")
		s := w.Stats()
		assert.EqualValues(t, 101, s.Fired)
		assert.Equal(t, time.Minute, s.LongestTask)
		assert.Zero(t, s.Running)
		assert.Zero(t, s.Pending)
	})
}

// A timer in the queue of an executor can be stopped and reset, and Close returns its task.
func TestATimerInTheQueueOfAnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := make(chan func(), 10)
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond, MaxPending: 4, Executor: func(run func()) { queue <- run }})
		require.NoError(t, err)
		var timers []schedule.Timer
		runs := map[int]int{}
		for id := range 4 { // one tick each: a tick runs shard by shard, and a goroutine may change its shard
			timer, err := w.Schedule(time.Second+time.Duration(id-2)*w.Tick(), taskFunc(func(schedule.Timer) { runs[id]++ }))
			require.NoError(t, err)
			timers = append(timers, timer)
		}
		advance(2 * time.Second)
		require.Len(t, queue, 4)
		assert.Zero(t, w.Stats().Fired)
		assert.True(t, timers[0].Stop())
		assert.True(t, timers[1].Reset(time.Second))
		next := func() {
			run := <-queue
			run()
			run() // a second call does nothing
		}
		next()
		next()
		next()
		assert.Equal(t, time.Second, w.Stats().LateMax, "counted until the start of Run")
		held := <-queue
		assert.Equal(t, map[int]int{2: 1}, runs)
		assert.False(t, timers[2].Reset(time.Second), "its Run has returned")

		advance(2 * time.Second)
		require.Len(t, queue, 1)
		next()
		assert.Equal(t, map[int]int{1: 1, 2: 1}, runs)

		assert.Equal(t, 1, w.Stats().Pending)
		assert.Len(t, w.Close(), 1)
		held()
		assert.Equal(t, map[int]int{1: 1, 2: 1}, runs, "no task starts after Close")
	})
}

// A hook that calls runtime.Goexit, as FailNow of a test does, ends the Run as well. The
// timer no longer counts as pending, and StopAndWait returns.
func TestAHookThatCallsGoexit(t *testing.T) {
	for name, executor := range map[string]func(func()){
		"no executor":     nil,
		"own goroutine":   func(run func()) { go run() },
		"wheel goroutine": func(run func()) { run() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := wheel.New(&wheel.Options{
					MaxPending: 1,
					Executor:   executor,
					OnPanic:    func(schedule.Task, any, []byte) { runtime.Goexit() },
				})
				require.NoError(t, err)
				for want := range uint64(3) {
					timer, err := w.Schedule(time.Second, taskFunc(func(schedule.Timer) { panic("oops") }))
					require.NoError(t, err)
					advance(time.Minute)
					s := w.Stats()
					assert.Equal(t, want+1, s.Fired)
					assert.Equal(t, want+1, s.Panics)
					require.Zero(t, s.Pending)
					assert.False(t, timer.StopAndWait())
				}
				assert.Empty(t, w.Close())
			})
		})
	}
}
