package heapqueue_test

import (
	"bytes"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// taskFunc is a Task made of a function.
type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

// open returns a Scheduler that is closed when the test ends.
func open(t *testing.T, o *heapqueue.Options) *heapqueue.Scheduler {
	t.Helper()
	s, err := heapqueue.NewScheduler(o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func at(t *testing.T, s *heapqueue.Scheduler, d time.Duration, f func(schedule.Timer)) schedule.Timer {
	t.Helper()
	timer, err := s.Schedule(d, taskFunc(f))
	require.NoError(t, err)
	return timer
}

func TestNewSchedulerNamesTheInvalidField(t *testing.T) {
	for field, o := range map[string]heapqueue.Options{
		"Options.Workers must be from 0 to 256, got -1":    {Workers: -1},
		"Options.Workers must be from 0 to 256, got 257":   {Workers: 257},
		"Options.MaxPending must be from 0 to 2147483647,": {MaxPending: -1},
	} {
		_, err := heapqueue.NewScheduler(&o)
		assert.ErrorContains(t, err, "heapqueue: "+field)
	}
	for _, o := range []heapqueue.Options{{}, {Workers: 256}, {MaxPending: math.MaxInt32}} {
		_, err := heapqueue.NewScheduler(&o)
		assert.NoError(t, err)
	}
}

func TestTheZeroSchedulerReturnsAnError(t *testing.T) {
	s := new(heapqueue.Scheduler)
	timer, err := s.Schedule(time.Second, taskFunc(nil))
	require.EqualError(t, err, "heapqueue: Scheduler was not made by NewScheduler")
	assert.Zero(t, timer)
	assert.Zero(t, s.Stats())
	assert.Empty(t, s.Close())
}

func TestWorkersStartWithTheFirstSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &heapqueue.Options{Workers: 3})
		assert.Zero(t, workers())
		for range 2 {
			at(t, s, time.Hour, nil)
			assert.Equal(t, 3, workers())
		}
		s.Close()
		assert.Zero(t, workers())
	})
}

// workers returns the number of workers in the process.
func workers() int {
	synctest.Wait()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("heapqueue.(*Scheduler).work("))
}

func TestSchedulerHidesItsEngine(t *testing.T) {
	_, ok := any(open(t, nil)).(schedule.TimerOwner)
	assert.False(t, ok)
}

func TestAsManyTasksRunAtOnceAsThereAreWorkers(t *testing.T) {
	for workers, want := range map[int]time.Duration{0: 6, 1: 6, 2: 3, 3: 2, 6: 1, 9: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, &heapqueue.Options{Workers: workers})
			start := time.Now()
			var last atomic.Int64
			for range 6 {
				at(t, s, time.Second, func(schedule.Timer) {
					time.Sleep(time.Minute)
					last.Store(int64(time.Since(start)))
				})
			}
			settle(time.Hour)
			assert.EqualValues(t, time.Second+want*time.Minute, last.Load(), "%d workers", workers)
		})
	}
}

func TestCloseReturnsArmedTasksEarliestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		rearmed := &namedTask{"re-armed in its Run", func(self schedule.Timer) {
			self.Reset(2 * time.Hour)
			time.Sleep(time.Minute)
		}}
		_, err := s.Schedule(0, rearmed)
		require.NoError(t, err)
		due, later, latest := &namedTask{name: "due"}, &namedTask{name: "later"}, &namedTask{name: "latest"}
		for d, task := range map[time.Duration]schedule.Task{
			3 * time.Hour: latest, time.Hour: later, time.Second: due,
		} {
			_, err := s.Schedule(d, task)
			require.NoError(t, err)
		}
		settle(2 * time.Second)
		start := time.Now()
		assert.Equal(t, []schedule.Task{due, later, rearmed, latest}, s.Close())
		assert.Equal(t, time.Minute-2*time.Second, time.Since(start), "Close waited for the running task")
	})
}

type namedTask struct {
	name string
	run  func(schedule.Timer)
}

func (n *namedTask) Run(t schedule.Timer) { n.run(t) }

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &heapqueue.Options{OnPanic: func(schedule.Task, any, []byte) {}})
		assert.Zero(t, s.Stats())
		at(t, s, time.Second, func(schedule.Timer) { time.Sleep(10 * time.Second) })
		at(t, s, 3*time.Second, func(schedule.Timer) { time.Sleep(time.Second) }) // 8 s late
		at(t, s, time.Minute, func(schedule.Timer) { panic("on time") })
		at(t, s, time.Minute, func(schedule.Timer) { runtime.Goexit() })
		at(t, s, time.Hour, nil)
		at(t, s, time.Hour, nil).Stop()
		settle(2 * time.Second)
		var late schedule.Histogram
		late.Add(0)
		assert.Equal(t, schedule.Stats{Pending: 5, Fired: 1, Wakeups: 1, Late: late, Running: time.Second}, s.Stats(), "a running timer counts as pending")
		settle(time.Minute)
		late.Add(8 * time.Second)
		late.Add(0)
		late.Add(0)
		want := schedule.Stats{
			Late: late, Pending: 1, Fired: 4, Panics: 1, Wakeups: 2,
			LateMax: 8 * time.Second, LateMean: 2 * time.Second, LongestTask: 10 * time.Second,
		}
		assert.Equal(t, want, s.Stats())
		s.Close()
		want.Pending, want.Wakeups = 0, 3
		assert.Equal(t, want, s.Stats())
	})
}

func TestSchedulerKeepsNoReferenceToADoneTask(t *testing.T) {
	for name, end := range map[string]func(timer schedule.Timer){
		"stopped": func(timer schedule.Timer) { timer.Stop() },
		"fired":   func(timer schedule.Timer) { timer.Reset(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, nil)
				at(t, s, 24*time.Hour, nil) // keeps the slots allocated
				task := &namedTask{name, func(schedule.Timer) {}}
				seen := weak.Make(task)
				timer, err := s.Schedule(time.Hour, task)
				require.NoError(t, err)
				end(timer)
				settle(time.Second)
				runtime.GC()
				assert.Nil(t, seen.Value())
				assert.Equal(t, 1, s.Stats().Pending)
				runtime.KeepAlive(timer)
			})
		})
	}
}

// TestInspectHeapShowsTheFrontier has no name in the API: the demo draws a heap with it.
func TestInspectHeapShowsTheFrontier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		assert.Empty(t, seam.InspectHeap(s).Levels)
		for i := 1000; i > 0; i-- {
			at(t, s, time.Duration(i)*time.Second, func(schedule.Timer) {})
		}
		time.Sleep(time.Second / 2)
		state := seam.InspectHeap(s)
		assert.Equal(t, 1000, state.Timers)
		require.Len(t, state.Levels, 5)
		assert.Equal(t, []time.Duration{time.Second / 2}, state.Levels[0])
		for level, width := range []int{1, 4, 16, 64, 256} {
			require.Len(t, state.Levels[level], width)
			for i, left := range state.Levels[level] {
				assert.GreaterOrEqual(t, left, state.Levels[max(level-1, 0)][i/4], "no entry is before its parent")
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
