package wheel_test

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

func nothing(schedule.Timer) {}

// advance moves the clock of the bubble on and waits until its goroutines are idle.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBadOptionsAreNamed(t *testing.T) {
	for want, o := range map[string]wheel.Options{
		"Options.Tick":       {Tick: -1},
		"Options.Tick ":      {Tick: time.Microsecond - 1},
		"Options.Buckets":    {Buckets: -1},
		"Options.Buckets ":   {Buckets: 63},
		"Options.Buckets  ":  {Buckets: 1<<20 + 1},
		"Options.MaxPending": {MaxPending: -1},
	} {
		_, err := wheel.New(&o)
		require.ErrorContains(t, err, "wheel: "+strings.TrimSpace(want)+" must")
	}
}

// A channel of After is closed once the delay has passed, and by the end of the tick, or 1/256 of
// the delay later.
func TestAfterIsNeverEarly(t *testing.T) {
	const tick = 10 * time.Millisecond
	for name, o := range map[string]wheel.Options{
		"default":  {Tick: tick},
		"full":     {Tick: tick, MaxPending: 1},
		"executor": {Tick: tick, Executor: func(func()) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := wheel.New(&o)
				require.NoError(t, err)
				defer w.Close()
				_, err = w.Schedule(1000*time.Hour, taskFunc(nothing))
				require.NoError(t, err)
				rng := rand.New(rand.NewPCG(3, 5))
				var waiting sync.WaitGroup
				for range 3000 {
					time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
					d := 1 + time.Duration(rng.Int64N(1<<(1+rng.IntN(50))))
					began := time.Now()
					over := w.After(d)
					waiting.Go(func() {
						<-over
						late := time.Since(began) - d
						assert.GreaterOrEqual(t, late, time.Duration(0), d)
						assert.LessOrEqual(t, late, tick+d/256, d)
					})
				}
				waiting.Wait()
			})
		})
	}
}

func TestAfterSharesTheChannelOfATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
		require.NoError(t, err)
		defer w.Close()
		time.Sleep(time.Millisecond)
		second := w.After(time.Second)
		assert.Equal(t, second, w.After(time.Second+8*time.Millisecond), "the same tick")
		assert.NotEqual(t, second, w.After(time.Second+10*time.Millisecond), "the next tick")
		hour := w.After(time.Hour)
		assert.Equal(t, hour, w.After(time.Hour+4*time.Second), "within 1/256")
		assert.NotEqual(t, hour, w.After(time.Hour+15*time.Second))
		assert.Equal(t, 4, w.Stats().Pending)
		time.Sleep(900 * time.Millisecond)
		assert.Equal(t, second, w.After(100*time.Millisecond), "the same tick from nearer")
		assert.Equal(t, 4, w.Stats().Pending)
		advance(time.Hour + time.Minute)
		assert.Zero(t, w.Stats().Pending)

		var all [64]<-chan struct{}
		var callers sync.WaitGroup
		for i := range all { // all at the same instant
			callers.Go(func() { all[i] = w.After(time.Minute) })
		}
		callers.Wait()
		for _, over := range all {
			assert.Equal(t, all[0], over)
		}
		assert.Equal(t, 1, w.Stats().Pending)
	})
}

// Close closes no channel of After early, and none stays open.
func TestAfterAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond, MaxPending: 1})
		require.NoError(t, err)
		assert.True(t, closed(w.After(0)))
		assert.True(t, closed(w.After(-time.Hour)))
		pending := w.After(time.Second)
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.ErrorIs(t, err, schedule.ErrFull, "a tick counts as a timer")
		more := w.After(2 * time.Second)
		assert.Empty(t, w.Close(), "the tasks of After are not the caller's")
		assert.Zero(t, w.Stats().Pending)
		began := time.Now()
		for i, over := range []<-chan struct{}{pending, more, w.After(3 * time.Second), new(wheel.Wheel).After(4 * time.Second)} {
			assert.False(t, closed(over))
			<-over
			assert.Equal(t, time.Duration(i+1)*time.Second, time.Since(began))
		}
		assert.True(t, closed(new(wheel.Wheel).After(0)))
		assert.Zero(t, w.Stats().Pending)
	})
}

func closed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheZeroWheelTakesNoTimer(t *testing.T) {
	w := new(wheel.Wheel)
	timer, err := w.Schedule(time.Second, taskFunc(nothing))
	require.EqualError(t, err, "wheel: the Wheel was not made by New")
	assert.Zero(t, timer)
	assert.Zero(t, w.Tick())
	assert.Zero(t, w.Stats())
	assert.Empty(t, w.Close())
}

func TestNoGoroutineBeforeTheFirstSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goroutines := func() int { // that exist in this bubble and will not end by themselves
			synctest.Wait()
			all := make([]byte, 1<<20)
			stacks := string(all[:runtime.Stack(all, true)]) // the first is of this goroutine
			_, bubble, _ := strings.Cut(stacks, "synctest bubble ")
			bubble, _, _ = strings.Cut(bubble, "]")
			return strings.Count(stacks, "synctest bubble "+bubble+"]")
		}
		before := goroutines()
		w, err := wheel.New(nil)
		require.NoError(t, err)
		assert.Equal(t, before, goroutines())
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		assert.Equal(t, before+1, goroutines())
		w.Close()
	})
}

// The wheel sleeps until the next timer is due, however far away that is.
func TestAnIdleWheelDoesNotWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		advance(time.Minute)
		before := w.Stats().Wakeups
		advance(24 * time.Hour)
		assert.Equal(t, before, w.Stats().Wakeups, "an empty wheel")

		_, err = w.Schedule(365*24*time.Hour, taskFunc(nothing))
		require.NoError(t, err)
		synctest.Wait()
		before = w.Stats().Wakeups
		advance(24 * time.Hour)
		assert.LessOrEqual(t, w.Stats().Wakeups-before, uint64(1), "a far timer wakes the wheel only when its coarse bucket opens")
	})
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond, OnPanic: func(schedule.Task, any, []byte) {}})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(100*time.Millisecond, taskFunc(func(schedule.Timer) { time.Sleep(time.Second) }))
		require.NoError(t, err)
		_, err = w.Schedule(200*time.Millisecond, taskFunc(func(schedule.Timer) { panic("oops") }))
		require.NoError(t, err)
		far, err := w.Schedule(time.Hour, taskFunc(nothing))
		require.NoError(t, err)
		fresh := w.Stats()
		fresh.Wakeups = 0 // depends on whether the worker slept when the timers were added
		assert.Equal(t, schedule.Stats{Pending: 3}, fresh)

		advance(100 * time.Millisecond)
		assert.EqualValues(t, 1, w.Stats().Running, "a Run that has just begun")
		advance(500 * time.Millisecond)
		s := w.Stats()
		assert.Equal(t, 500*time.Millisecond, s.Running, "the Run in progress blocks the wheel")
		assert.Equal(t, 3, s.Pending)

		advance(time.Second)
		s = w.Stats()
		assert.Equal(t, 1, s.Pending)
		assert.EqualValues(t, 2, s.Fired)
		assert.EqualValues(t, 1, s.Panics)
		assert.Equal(t, time.Second, s.LongestTask)
		assert.Equal(t, 900*time.Millisecond, s.LateMax, "the first task delayed the second one")
		assert.Equal(t, 450*time.Millisecond, s.LateMean)
		assert.EqualValues(t, 2, s.Late.Count())
		assert.Equal(t, 900*time.Millisecond, s.Late.Sum())
		assert.Zero(t, s.Running)
		far.Stop()
		assert.Zero(t, w.Stats().Pending)
	})
}

// The sum of all latenesses can overflow a Duration: three million timers that are an hour
// late are enough.
func TestTheMeanLatenessDoesNotOverflow(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for name, executor := range map[string]func(func()){"worker": nil, "executor": func(run func()) { run() }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := wheel.New(&wheel.Options{Executor: executor})
				require.NoError(t, err)
				defer w.Close()
				_, err = w.Schedule(0, taskFunc(func(schedule.Timer) { time.Sleep(century) }))
				require.NoError(t, err)
				for range 7 {
					_, err := w.Schedule(time.Minute, taskFunc(nothing))
					require.NoError(t, err)
				}
				advance(century + time.Minute)
				s := w.Stats()
				assert.EqualValues(t, 8, s.Fired)
				assert.InDelta(t, century-time.Minute, s.LateMax, float64(time.Second))
				assert.InDelta(t, s.LateMax/8*7, s.LateMean, float64(time.Second), "the first timer was on time")
			})
		})
	}
}

// The worker wakes up once for all timers of one tick.
func TestWakeupsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		synctest.Wait()
		before := w.Stats().Wakeups
		advance(time.Second)
		assert.EqualValues(t, 1, w.Stats().Wakeups-before)
		assert.EqualValues(t, 1, w.Stats().Fired)
		assert.LessOrEqual(t, w.Stats().LateMean, 10*time.Millisecond)
	})
}

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The default logger is read for each message, because a program may call slog.SetDefault after New.
func TestAPanicWithoutAHookIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		assert.Equal(t, 100*time.Millisecond, w.Tick())
		var log syncBuffer
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		_, err = w.Schedule(0, taskFunc(func(schedule.Timer) { panic("oops") }))
		require.NoError(t, err)
		advance(time.Second)
		assert.Contains(t, log.String(), `level=ERROR msg="wheel: task panicked"`)
		assert.Contains(t, log.String(), "panic=oops")
		assert.Contains(t, log.String(), "wheel_test.go", "with the stack")
	})
}

func TestAWheelDroppedWithoutCloseIsReported(t *testing.T) {
	var log syncBuffer
	var stop func()
	func() {
		w, err := wheel.New(&wheel.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		timer, err := w.Schedule(time.Hour, taskFunc(nothing))
		require.NoError(t, err)
		inner := *w // keeps the core reachable, so that the test can close it
		stop = func() { inner.Close() }
		_ = timer
	}()
	waitFor(t, func() bool { return strings.Contains(log.String(), "dropped without Close") })
	assert.Contains(t, log.String(), "pending=1")
	stop()

	log = syncBuffer{}
	func() {
		for range 10 {
			w, err := wheel.New(&wheel.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			_, err = w.Schedule(time.Hour, taskFunc(nothing))
			require.NoError(t, err)
			w.Close()
		}
	}()
	runtime.GC()
	runtime.GC()
	assert.Empty(t, log.String(), "a closed wheel is not reported")
}

// waitFor runs the garbage collector until the condition holds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			require.Fail(t, "the condition did not become true within 10 s")
		default:
			runtime.GC()
			runtime.Gosched()
		}
	}
}

// A timer that is added while the worker is about to sleep wakes the worker. The loop adds
// each timer as soon as the last one has run, which is when the worker is about to sleep.
func TestNoWakeupIsLost(t *testing.T) {
	w, err := wheel.New(&wheel.Options{Tick: time.Microsecond})
	require.NoError(t, err)
	defer w.Close()
	var fired atomic.Int64
	task := taskFunc(func(schedule.Timer) { fired.Add(1) })
	hung := time.AfterFunc(time.Minute, func() { panic("a wake-up was lost") })
	defer hung.Stop()
	for i := range int64(10_000) {
		_, err := w.Schedule(0, task)
		require.NoError(t, err)
		for spin := 0; fired.Load() == i; spin++ {
			if spin%64 == 63 {
				runtime.Gosched()
			}
		}
	}
}

// TestInspectWheelShowsWhereTheTimersAre has no name in the API: the demo draws a wheel with it.
func TestInspectWheelShowsWhereTheTimersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond, Buckets: 64})
		require.NoError(t, err)
		defer w.Close()
		assert.Empty(t, seam.InspectWheel(w).Levels)
		for range 3 {
			_, err := w.Schedule(50*time.Millisecond, taskFunc(nothing))
			require.NoError(t, err)
		}
		_, err = w.Schedule(time.Second, taskFunc(nothing)) // 100 ticks: in bucket 3 of level 1, which is 32 ticks wide
		require.NoError(t, err)

		levels := seam.InspectWheel(w).Levels
		require.Len(t, levels, 2)
		assert.Equal(t, 10*time.Millisecond, levels[0].Width)
		assert.Equal(t, 320*time.Millisecond, levels[1].Width)
		assert.Len(t, levels[0].Timers, 64)
		assert.Len(t, levels[1].Timers, 128)
		assert.Equal(t, 3, levels[0].Timers[5])
		assert.Equal(t, 1, levels[1].Timers[3])
		assert.Equal(t, 0, levels[0].Hand)

		advance(900 * time.Millisecond)
		levels = seam.InspectWheel(w).Levels
		require.Len(t, levels, 2)
		assert.Equal(t, 0, levels[1].Timers[3], "the timer has moved to level 0")
		assert.Equal(t, 0, levels[0].Timers[5])
		assert.Equal(t, 1, levels[0].Timers[100%64])
		assert.Equal(t, 90%64, levels[0].Hand)
	})
}
