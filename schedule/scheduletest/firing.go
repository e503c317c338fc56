// The cases of when timers fire.

package scheduletest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var firingCases = []testCase{
	{"E1E2_fires_within_its_slack", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		rng := rand.New(rand.NewPCG(1, 2))
		var due []time.Duration
		for id := range 2000 {
			d := randomDelay(rng, time.Hour)
			due = append(due, time.Since(rec.start)+d)
			arm(t, e, d, rec.task(id))
			if id%10 == 0 { // so that delays start anywhere within a tick
				time.Sleep(randomDelay(rng, time.Second))
			}
		}
		advance(2 * time.Hour)

		runs := rec.all()
		require.Len(t, runs, len(due), "each timer fires once")
		for _, r := range runs {
			assert.GreaterOrEqual(t, r.at, due[r.id], "timer %d fired early", r.id)
			assert.LessOrEqual(t, r.at, due[r.id]+c.Slack, "timer %d fired late", r.id)
		}
	}},
	{"E2_an_earlier_timer_wakes_the_engine", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		arm(t, e, time.Hour, rec.task(0))
		advance(time.Minute)
		arm(t, e, time.Second, rec.task(1))
		advance(time.Second + c.Slack)
		assert.Equal(t, 1, rec.count(1))
		assert.Equal(t, 0, rec.count(0))
	}},
	{"E6_after_a_pause_timers_run_in_order", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		// A task that blocks delays the engine as a pause of the process does.
		arm(t, e, time.Millisecond, taskFunc(func(schedule.Timer) { time.Sleep(time.Hour) }))
		step := max(10*c.Slack, time.Millisecond)
		for _, id := range rand.New(rand.NewPCG(3, 4)).Perm(500) {
			arm(t, e, time.Second+time.Duration(id)*step, rec.task(id))
		}
		advance(2 * time.Hour)

		runs := rec.all()
		require.Len(t, runs, 500)
		for i, r := range runs {
			assert.Equal(t, i, r.id, "timers that became due during the pause run in the order of their due times")
		}
	}},
	{"E6_a_task_that_resets_itself_to_now_does_not_starve_others", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		var hot schedule.Task = taskFunc(func(self schedule.Timer) {
			time.Sleep(time.Microsecond) // otherwise the clock of the bubble stops
			self.Reset(-time.Hour)
		})
		timer := arm(t, e, 0, hot)
		arm(t, e, time.Millisecond, rec.task(1))
		advance(time.Millisecond + 2*c.Slack + time.Millisecond)
		assert.Equal(t, 1, rec.count(1))
		timer.Stop()
	}},
	{"E8_extreme_delays", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		soon := []time.Duration{0, -1, -time.Hour, math.MinInt64, 1}
		for id, d := range soon {
			arm(t, e, d, rec.task(id))
		}
		for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 200 * 365 * 24 * time.Hour} {
			timer := arm(t, e, d, rec.task(99))
			defer func() { assert.True(t, timer.Stop(), "a timer of %v is still pending", d) }()
		}
		advance(1 + c.Slack)
		for id, d := range soon {
			assert.Equal(t, 1, rec.count(id), "a timer with a delay of %v fires at once", d)
		}
		advance(100 * 365 * 24 * time.Hour)
		assert.Equal(t, 0, rec.count(99), "a timer of centuries does not fire after one")
		assert.Len(t, rec.all(), len(soon))
	}},
	{"E8_a_timer_of_a_century_fires", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		const century = 100 * 365 * 24 * time.Hour
		arm(t, e, century, rec.task(0))
		advance(century - 1)
		assert.Equal(t, 0, rec.count(0))
		advance(1 + c.Slack)
		assert.Equal(t, 1, rec.count(0))
	}},
	{"Run_receives_its_own_timer", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		var got schedule.Timer
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) { got = self }))
		advance(time.Second + c.Slack)
		assert.Equal(t, timer, got)
	}},
	{"a_task_may_schedule_and_stop_others", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		victim := arm(t, e, time.Hour, rec.task(0))
		arm(t, e, time.Second, taskFunc(func(schedule.Timer) {
			assert.True(t, victim.Stop())
			_, err := e.Schedule(time.Second, rec.task(1))
			assert.NoError(t, err)
		}))
		advance(2 * time.Hour)
		assert.Equal(t, 0, rec.count(0))
		assert.Equal(t, 1, rec.count(1))
	}},
}
