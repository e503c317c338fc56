package wheel_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

func nothing(schedule.Timer) {}

func settle(d time.Duration) {
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

func TestTheZeroWheelTakesNoTimer(t *testing.T) {
	w := new(wheel.Wheel)
	timer, err := w.Schedule(time.Second, taskFunc(nothing))
	require.EqualError(t, err, "wheel: the Wheel was not made by New")
	assert.Zero(t, timer)
	assert.Zero(t, w.Tick())
	assert.Zero(t, w.Stats())
	assert.Empty(t, w.Close())
}

func TestDefaults(t *testing.T) {
	w, err := wheel.New(nil)
	require.NoError(t, err)
	assert.Equal(t, 100*time.Millisecond, w.Tick())
	assert.Empty(t, w.Close())
	w, err = wheel.New(&wheel.Options{Buckets: 1 << 20, Tick: time.Microsecond})
	require.NoError(t, err)
	assert.Empty(t, w.Close())
}

func TestNoGoroutineBeforeTheFirstSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		w, err := wheel.New(nil)
		require.NoError(t, err)
		assert.Equal(t, before, runtime.NumGoroutine())
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		assert.Equal(t, before+1, runtime.NumGoroutine())
		w.Close()
	})
}

// The wheel sleeps to the next due timer, however far and however fine its tick.
func TestIdleCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		settle(time.Minute)
		before := w.Stats().Wakeups
		settle(24 * time.Hour)
		assert.Equal(t, before, w.Stats().Wakeups, "an empty wheel")

		_, err = w.Schedule(365*24*time.Hour, taskFunc(nothing))
		require.NoError(t, err)
		synctest.Wait()
		before = w.Stats().Wakeups
		settle(24 * time.Hour)
		assert.LessOrEqual(t, w.Stats().Wakeups-before, uint64(1), "a far timer: at most one look as a coarse bucket comes up")
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
		fresh.Wakeups = 0 // an earlier timer may have found the worker asleep
		assert.Equal(t, wheel.Stats{Pending: 3}, fresh)

		settle(100 * time.Millisecond)
		assert.EqualValues(t, 1, w.Stats().Running, "from the moment that it begins")
		settle(500 * time.Millisecond)
		s := w.Stats()
		assert.Equal(t, 500*time.Millisecond, s.Running, "a task that holds the wheel up shows at once")
		assert.Equal(t, 3, s.Pending)

		settle(time.Second)
		s = w.Stats()
		assert.Equal(t, 1, s.Pending)
		assert.EqualValues(t, 2, s.Fired)
		assert.EqualValues(t, 1, s.Panics)
		assert.Equal(t, time.Second, s.LongestTask)
		assert.Equal(t, 900*time.Millisecond, s.LateMax, "the second one had to wait")
		assert.Equal(t, 450*time.Millisecond, s.LateMean)
		assert.Zero(t, s.Running)
		far.Stop()
		assert.Zero(t, w.Stats().Pending)
	})
}

// What all timers together were late outgrows a Duration: three million of them that
// are an hour late are enough.
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
				settle(century + time.Minute)
				s := w.Stats()
				assert.EqualValues(t, 8, s.Fired)
				assert.InDelta(t, century-time.Minute, s.LateMax, float64(time.Second))
				assert.InDelta(t, s.LateMax/8*7, s.LateMean, float64(time.Second), "the first was on time")
			})
		})
	}
}

// The worker wakes up once for what is due at one instant.
func TestWakeUpsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 10 * time.Millisecond})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, taskFunc(nothing))
		require.NoError(t, err)
		synctest.Wait()
		before := w.Stats().Wakeups
		settle(time.Second)
		assert.EqualValues(t, 1, w.Stats().Wakeups-before)
		assert.EqualValues(t, 1, w.Stats().Fired)
		assert.LessOrEqual(t, w.Stats().LateMean, 10*time.Millisecond)
	})
}

// syncBuffer is a log that several goroutines write to.
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

func TestAPanicWithoutAHookIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		w, err := wheel.New(&wheel.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(0, taskFunc(func(schedule.Timer) { panic("oops") }))
		require.NoError(t, err)
		settle(time.Second)
		assert.Contains(t, log.String(), "panic=oops")
		assert.Contains(t, log.String(), "wheel_test.go", "with the stack")
	})
}

// A wheel is often made before the program has set its logger.
func TestTheDefaultLoggerIsThatOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(nil)
		require.NoError(t, err)
		defer w.Close()
		var log syncBuffer
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		_, err = w.Schedule(0, taskFunc(func(schedule.Timer) { panic("oops") }))
		require.NoError(t, err)
		settle(time.Second)
		assert.Contains(t, log.String(), "level=ERROR msg=\"wheel: task panicked\"")
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
		inner := *w // keeps the worker reachable, so that the test can end it
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
	assert.Empty(t, log.String(), "a closed wheel is fine")
}

// waitFor collects garbage until the condition holds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			require.Fail(t, "it never came to be")
		default:
			runtime.GC()
			runtime.Gosched()
		}
	}
}

// A timer that is armed at the very moment at which the worker goes to sleep wakes
// it. The task and the loop chase each other, so that they meet there.
func TestNoWakeUpIsLost(t *testing.T) {
	w, err := wheel.New(&wheel.Options{Tick: time.Microsecond})
	require.NoError(t, err)
	defer w.Close()
	var fired atomic.Int64
	task := taskFunc(func(schedule.Timer) { fired.Add(1) })
	hung := time.AfterFunc(time.Minute, func() { panic("a wake-up was lost") })
	defer hung.Stop()
	for i := range int64(30_000) {
		_, err := w.Schedule(0, task)
		require.NoError(t, err)
		for spin := 0; fired.Load() == i; spin++ {
			if spin%64 == 63 {
				runtime.Gosched()
			}
		}
	}
}
