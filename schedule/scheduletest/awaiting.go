package scheduletest

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var awaiting = []testCase{
	{"E3_StopAndWait_of_a_pending_timer", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		timer, err := e.Schedule(time.Second, rec.task(0))
		require.NoError(t, err)
		assert.True(t, timer.StopAndWait())
		assert.False(t, timer.StopAndWait())
		settle(time.Hour)
		assert.Empty(t, rec.all())
	}},
	{"E3_StopAndWait_waits_for_Run", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		over := false // no lock: StopAndWait is the only order there is
		timer, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			time.Sleep(time.Minute)
			assert.False(t, self.Reset(time.Second), "stopped while it ran")
			over = true
		}))
		require.NoError(t, err)
		settle(time.Second + c.Slack + time.Second)
		start := time.Now()
		assert.False(t, timer.StopAndWait(), "Run had begun")
		assert.True(t, over)
		assert.LessOrEqual(t, time.Since(start), time.Minute)
		assert.False(t, timer.StopAndWait(), "over, and not waited for")
	}},
	{"E3_StopAndWait_calls_off_what_Run_armed", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		timer, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			rec.note(0)
			assert.True(t, self.Reset(time.Hour))
			time.Sleep(time.Minute)
		}))
		require.NoError(t, err)
		settle(time.Second + c.Slack + time.Second)
		assert.True(t, timer.StopAndWait(), "the new arming")
		settle(2 * time.Hour)
		assert.Equal(t, 1, rec.count(0))
	}},
	{"E3_StopAndWait_of_a_Run_that_fails", func(t *testing.T, c Config) {
		e := open(t, c, Options{OnPanic: func(any) {}})
		for _, fail := range []func(){func() { panic("oops") }, runtime.Goexit} {
			timer, err := e.Schedule(0, taskFunc(func(schedule.Timer) {
				time.Sleep(time.Minute)
				fail()
			}))
			require.NoError(t, err)
			settle(c.Slack + time.Second)
			assert.False(t, timer.StopAndWait())
		}
	}},
	{"E3_StopAndWait_by_many_and_across_Close", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		timer, err := e.Schedule(0, taskFunc(func(schedule.Timer) { time.Sleep(time.Minute) }))
		require.NoError(t, err)
		settle(c.Slack + time.Second)
		ends := make(chan time.Duration, 11)
		start := time.Now()
		for range 10 {
			go func() {
				timer.StopAndWait()
				ends <- time.Since(start)
			}()
		}
		go func() {
			e.Close()
			ends <- time.Since(start)
		}()
		for range 11 {
			assert.Greater(t, <-ends, 58*time.Second-c.Slack)
		}
	}},
	{"E4_Reset_during_Run_waits_for_its_end", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		var running bool // no lock: runs of one timer follow one another
		timer, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			assert.False(t, running, "overlaps itself")
			running = true
			rec.note(0)
			if rec.count(0) < 3 {
				assert.True(t, self.Reset(0))
			}
			time.Sleep(time.Minute)
			running = false
		}))
		require.NoError(t, err)
		settle(30 * time.Second)
		assert.True(t, timer.Reset(time.Second), "from elsewhere")
		settle(time.Hour)
		assert.Equal(t, 3, rec.count(0))
	}},
	{"E4_Close_returns_what_Run_armed", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		_, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			assert.True(t, self.Reset(time.Second))
			time.Sleep(time.Minute)
		}))
		require.NoError(t, err)
		settle(time.Second + c.Slack + time.Second)
		assert.Len(t, e.Close(), 1)
		synctest.Wait()
	}},
}
