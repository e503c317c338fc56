package wheel_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// A task that blocks the wheel is reported while it is still running, and again, not more than
// once a minute, when its duration has doubled.
func TestATaskThatBlocksIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		w, err := wheel.New(&wheel.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer w.Close()
		_, err = w.Schedule(time.Second, taskFunc(func(schedule.Timer) { time.Sleep(150 * time.Second) }))
		require.NoError(t, err)
		_, err = w.Schedule(time.Hour, taskFunc(nothing))
		require.NoError(t, err)
		advance(time.Second + 900*time.Millisecond)
		assert.Empty(t, log.String(), "a second is not enough")
		advance(2200 * time.Millisecond)
		assert.Contains(t, log.String(), `level=WARN msg="wheel: a task blocks the wheel, so its timers are late" lasts=2s task=wheel_test.taskFunc pending=2`)
		assert.Equal(t, 1, strings.Count(log.String(), "msg="))
		advance(62 * time.Second)
		assert.Equal(t, 2, strings.Count(log.String(), "msg="))
		assert.Contains(t, log.String(), "lasts=1m4s")
		advance(time.Hour)
		assert.LessOrEqual(t, strings.Count(log.String(), "msg="), 3, "the task has returned")
	})
}

// Many short tasks, and timers at each tick, do not block the wheel.
func TestTasksThatReturnAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		w, err := wheel.New(&wheel.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer w.Close()
		for range 3 {
			_, err = w.Schedule(0, taskFunc(func(self schedule.Timer) {
				time.Sleep(900 * time.Millisecond)
				self.Reset(0)
			}))
			require.NoError(t, err)
		}
		advance(time.Minute)
		assert.NotZero(t, w.Stats().Fired)
		assert.Empty(t, log.String())
	})
}

// Tasks of an executor may block. The executor itself must not.
func TestAnExecutorThatBlocksIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		var blocks time.Duration
		w, err := wheel.New(&wheel.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Executor: func(run func()) {
				time.Sleep(blocks)
				go run()
			},
		})
		require.NoError(t, err)
		defer w.Close()
		sleep := taskFunc(func(schedule.Timer) { time.Sleep(10 * time.Second) })
		_, err = w.Schedule(0, sleep)
		require.NoError(t, err)
		advance(time.Minute)
		assert.Empty(t, log.String())
		blocks = 10 * time.Second
		_, err = w.Schedule(0, sleep)
		require.NoError(t, err)
		advance(time.Minute)
		assert.Contains(t, log.String(), "Options.Executor blocks the wheel")
		assert.Equal(t, 1, strings.Count(log.String(), "msg="))
	})
}
