// The cases of StopAndWait.

package scheduletest

import (
	"runtime"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/schedule"
)

var stopAndWaitCases = []testCase{
	{"E3_StopAndWait_waits_for_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		over := false // no lock: StopAndWait synchronizes the accesses
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			time.Sleep(time.Minute)
			assert.False(t, self.Reset(time.Second), "Reset after Stop from elsewhere")
			over = true
		}))
		advance(time.Second + c.Slack + time.Second)
		start := time.Now()
		assert.False(t, timer.StopAndWait(), "Run has begun")
		assert.True(t, over, "StopAndWait returned before Run")
		assert.LessOrEqual(t, time.Since(start), time.Minute)
		assert.False(t, timer.StopAndWait(), "the timer has ended")
	}},
	{"E3_StopAndWait_undoes_a_Reset_inside_Run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			rec.record(0)
			assert.True(t, self.Reset(time.Hour))
			time.Sleep(time.Minute)
		}))
		advance(time.Second + c.Slack + time.Second)
		assert.True(t, timer.StopAndWait(), "StopAndWait prevents the next Run")
		advance(2 * time.Hour)
		assert.Equal(t, 1, rec.count(0))
	}},
	{"E3_StopAndWait_of_a_Run_that_panics_or_exits", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{OnPanic: func(any) {}})
		for _, fail := range []func(){func() { panic("oops") }, runtime.Goexit} {
			timer := arm(t, e, 0, taskFunc(func(schedule.Timer) {
				time.Sleep(time.Minute)
				fail()
			}))
			advance(c.Slack + time.Second)
			assert.False(t, timer.StopAndWait())
		}
	}},
	{"E3_StopAndWait_by_many_goroutines_during_Close", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		timer := arm(t, e, 0, taskFunc(func(schedule.Timer) { time.Sleep(time.Minute) }))
		advance(c.Slack + time.Second)
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
	{"E4_a_timer_reset_during_Run_fires_after_that_Run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		var running bool // no lock: the Runs of one timer do not overlap
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			assert.False(t, running, "the Runs of a timer overlap")
			running = true
			rec.record(0)
			if rec.count(0) < 3 {
				assert.True(t, self.Reset(0))
			}
			time.Sleep(time.Minute)
			running = false
		}))
		advance(30 * time.Second)
		assert.True(t, timer.Reset(time.Second), "from elsewhere")
		advance(time.Hour)
		assert.Equal(t, 3, rec.count(0))
	}},
}
