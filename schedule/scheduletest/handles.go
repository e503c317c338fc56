// The cases of Stop and Reset, also with old handles.

package scheduletest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var stopCases = []testCase{
	{"E3_Stop_of_a_pending_timer", func(t *caseT, c Config) {
		for _, stop := range []func(schedule.Timer) bool{schedule.Timer.Stop, schedule.Timer.StopAndWait} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer := arm(t, e, time.Second, rec.task(0))
			other := timer
			assert.True(t, stop(timer), "the first Stop prevents the Run")
			assert.False(t, stop(other), "a copy of the handle is the same timer")
			assert.False(t, timer.Reset(time.Second), "Reset after Stop")
			advance(time.Hour)
			assert.Empty(t, rec.all())
		}
	}},
	{"E3_Stop_of_a_fired_timer", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Second, rec.task(0))
		advance(time.Second + c.Slack)
		assert.False(t, timer.Stop())
		assert.False(t, timer.Reset(0), "Reset after the timer has fired")
		advance(time.Hour)
		assert.Equal(t, 1, rec.count(0))
	}},
	{"E3_a_stale_handle_never_changes_a_later_timer", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		var stale []schedule.Timer
		for range 3000 {
			timer := arm(t, e, time.Hour, rec.task(0))
			stale = append(stale, timer)
			require.True(t, timer.Stop())
		}
		for id := range 100 {
			arm(t, e, time.Second, rec.task(1+id))
		}
		for _, timer := range stale {
			assert.False(t, timer.Stop())
			assert.False(t, timer.Reset(0))
		}
		advance(time.Second + c.Slack)
		assert.Len(t, rec.all(), 100)
	}},
	{"E3_Stop_inside_Run_is_final", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		runs := 0
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			runs++
			assert.False(t, self.Stop(), "Stop cannot prevent a Run that has begun")
			assert.False(t, self.Reset(time.Second), "Reset after Stop")
		}))
		advance(time.Hour)
		assert.Equal(t, 1, runs)
	}},
	{"E3_Stop_during_Run_from_elsewhere_is_final", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		var runs atomic.Int64
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			runs.Add(1)
			time.Sleep(time.Minute)
			assert.False(t, self.Reset(time.Second), "Reset after Stop from elsewhere")
		}))
		advance(time.Second + c.Slack + time.Second)
		assert.False(t, timer.Stop())
		advance(time.Hour)
		assert.EqualValues(t, 1, runs.Load())
	}},
	{"E3_Stop_undoes_a_Reset_inside_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		runs := 0
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			runs++
			assert.True(t, self.Reset(time.Second))
			assert.True(t, self.Stop(), "Stop prevents the next Run")
			assert.False(t, self.Reset(time.Second))
		}))
		advance(time.Hour)
		assert.Equal(t, 1, runs)
	}},
	{"E3_Stop_of_a_due_timer_before_its_Run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		block(t, e, c)
		var due []schedule.Timer
		for id := range 300 {
			timer := arm(t, e, time.Second, rec.task(id))
			due = append(due, timer)
		}
		advance(time.Minute) // all timers are due, and none has run
		for id, timer := range due {
			switch id % 3 {
			case 0:
				assert.True(t, timer.Stop())
			case 1:
				assert.True(t, timer.Reset(3*time.Hour))
			}
		}
		advance(2 * time.Hour)
		assert.Len(t, rec.all(), 100, "timers that were neither stopped nor reset have fired")
		advance(2 * time.Hour)
		assert.Len(t, rec.all(), 200, "timers that were reset have fired, too")
	}},
	{"E3_the_zero_Timer", func(t *caseT, _ Config) {
		var timer schedule.Timer
		assert.False(t, timer.Stop())
		assert.False(t, timer.StopAndWait())
		assert.False(t, timer.Reset(time.Second))
	}},
	{"E3_each_Schedule_and_Reset_leads_to_one_Run_or_Stop", func(t *caseT, c Config) {
		// Several goroutines and the engine use the same timers at the same time.
		e := newEngine(t, c, Options{})
		var armed, ran, stopped, returned atomic.Int64
		task := taskFunc(func(self schedule.Timer) {
			ran.Add(1)
			if ran.Load()%3 == 0 && self.Reset(time.Millisecond) {
				armed.Add(1)
			}
		})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 7))
				far, err := e.Schedule(24*time.Hour, task)
				if !assert.NoError(t, err) {
					return
				}
				armed.Add(1)
				var timers []schedule.Timer
				for range 3000 {
					timer, err := e.Schedule(randomDelay(rng, time.Second), task)
					if !assert.NoError(t, err) {
						return
					}
					armed.Add(1)
					timers = append(timers, timer)
					if timers[rng.IntN(len(timers))].Stop() {
						stopped.Add(1)
					}
					assert.True(t, far.Reset(time.Hour+randomDelay(rng, 24*time.Hour)))
					if rng.IntN(50) == 0 {
						time.Sleep(randomDelay(rng, 100*time.Millisecond))
					}
				}
			})
		}
		wg.Wait()
		returned.Add(int64(len(e.Close())))
		synctest.Wait()
		assert.Equal(t, armed.Load(), ran.Load()+stopped.Load()+returned.Load())
		assert.Positive(t, ran.Load())
		assert.Positive(t, stopped.Load())
	}},
	{"E3_Stop_of_a_timer_that_was_just_scheduled", func(t *caseT, c Config) {
		// One goroutine schedules, another one stops at once, and the engine fires meanwhile.
		e := newEngine(t, c, Options{})
		const timers = 4000
		var ran, stopped [timers]atomic.Int64
		scheduled := make(chan func(), 1)
		var stopping sync.WaitGroup
		stopping.Go(func() {
			for stop := range scheduled {
				stop()
			}
		})
		rng := rand.New(rand.NewPCG(9, 7))
		for id := range timers {
			d := time.Duration(rng.Int64N(3)) * max(c.Slack, time.Millisecond)
			timer := arm(t, e, d, taskFunc(func(schedule.Timer) { ran[id].Add(1) }))
			scheduled <- func() {
				if timer.Stop() {
					stopped[id].Add(1)
				}
			}
			if id%8 == 0 {
				time.Sleep(max(c.Slack, time.Millisecond)) // timers become due
			}
		}
		close(scheduled)
		stopping.Wait()
		advance(time.Minute)
		for id := range timers {
			require.EqualValues(t, 1, ran[id].Load()+stopped[id].Load(), "timer %d ran %d times", id, ran[id].Load())
		}
		c.checkPending(t, e, 0)
		assert.Empty(t, e.Close())
	}},
}

var resetCases = []testCase{
	{"E4_Reset_replaces_the_due_time", func(t *caseT, c Config) {
		for _, tc := range []struct{ first, second time.Duration }{
			{time.Hour, time.Second},
			{time.Second, time.Hour},
			{time.Second, time.Second},
			{time.Second, time.Second + 1},
			{time.Hour, -1},
			{time.Second, 200 * 24 * time.Hour},
		} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer := arm(t, e, tc.first, rec.task(0))
			time.Sleep(time.Millisecond)
			due := time.Since(rec.start) + max(tc.second, 0)
			require.True(t, timer.Reset(tc.second))
			advance(300 * 24 * time.Hour)
			runs := rec.all()
			require.Len(t, runs, 1, "%v then %v", tc.first, tc.second)
			assert.GreaterOrEqual(t, runs[0].at, due, "%v then %v: early", tc.first, tc.second)
			assert.LessOrEqual(t, runs[0].at, due+c.Slack, "%v then %v: late", tc.first, tc.second)
		}
	}},
	{"E4_a_timer_that_is_reset_often_fires_once", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Minute, rec.task(0))
		for range 1000 {
			time.Sleep(time.Second)
			require.True(t, timer.Reset(time.Minute))
		}
		advance(time.Minute - 1)
		assert.Empty(t, rec.all())
		advance(1 + c.Slack)
		assert.Equal(t, 1, rec.count(0))
	}},
	{"E4_Reset_inside_Run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			rec.record(0)
			if rec.count(0) < 5 {
				assert.True(t, self.Reset(time.Hour), "the first Reset")
				assert.True(t, self.Reset(time.Second), "the second Reset")
			}
		}))
		advance(time.Hour)
		runs := rec.all()
		require.Len(t, runs, 5)
		for i, r := range runs {
			least := time.Duration(i+1) * time.Second
			assert.GreaterOrEqual(t, r.at, least)
			assert.LessOrEqual(t, r.at, least+time.Duration(i+1)*c.Slack)
		}
		assert.False(t, timer.Reset(0))
	}},
	{"E4_Reset_during_Run_from_elsewhere", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Second, taskFunc(func(schedule.Timer) {
			rec.record(0)
			if rec.count(0) == 1 {
				time.Sleep(time.Minute)
			}
		}))
		advance(time.Second + c.Slack + time.Second)
		assert.True(t, timer.Reset(time.Second), "Run is in progress")
		advance(30 * time.Second)
		assert.Equal(t, 1, rec.count(0), "the Runs of a timer do not overlap")
		advance(time.Minute)
		assert.Equal(t, 2, rec.count(0))
		assert.False(t, timer.Reset(0))
	}},
	{"E4_Reset_from_elsewhere_while_the_engine_moves_the_timer", func(t *caseT, c Config) {
		// Goroutines reset timers at the instants at which the engine looks at them: when they are
		// due, and when a wheel moves them between its levels. The latest Reset counts.
		step := max(c.Slack, time.Millisecond)
		for _, span := range []int64{4, 600, 40_000} { // in steps: one level of a wheel or several
			e, start := newEngine(t, c, Options{}), time.Now()
			var resetting sync.WaitGroup
			for g := range 4 {
				resetting.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(span), uint64(g)))
					delay := func() time.Duration { return time.Duration(1+rng.Int64N(span)) * step }
					all := make([]movedTimer, 50)
					for i := range all {
						all[i].arm(func(x *movedTimer) (due time.Duration, ok bool) {
							d, err := delay(), error(nil)
							x.timer, err = e.Schedule(d, taskFunc(func(schedule.Timer) { x.run(t, c, time.Since(start)) }))
							return time.Since(start) + d, assert.NoError(t, err)
						})
					}
					for range 60 {
						time.Sleep(time.Duration(1+rng.Int64N(max(span/16, 1))) * step)
						for i := range all {
							if rng.IntN(4) == 0 {
								all[i].arm(func(x *movedTimer) (due time.Duration, ok bool) {
									d := delay()
									return time.Since(start) + d, x.timer.Reset(d)
								})
							}
						}
					}
					time.Sleep(time.Duration(span+3)*step + c.Slack) // all Runs have begun before this instant
					for i := range all {
						all[i].mu.Lock()
						assert.False(t, all[i].armed, "a timer was lost")
						all[i].mu.Unlock()
					}
				})
			}
			resetting.Wait()
			c.checkPending(t, e, 0)
			assert.Empty(t, e.Close())
		}
	}},
	{"E4_Deadline_is_that_of_the_next_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		due := func(timer schedule.Timer, d time.Duration) time.Time {
			t.Helper()
			at, ok := timer.Deadline()
			assert.True(t, ok, "the timer has no deadline")
			assert.GreaterOrEqual(t, time.Until(at), d)
			assert.LessOrEqual(t, time.Until(at), d+c.Slack)
			return at
		}
		none := func(timer schedule.Timer, when string) {
			t.Helper()
			at, ok := timer.Deadline()
			assert.False(t, ok, when)
			assert.Zero(t, at, when)
		}
		none(schedule.Timer{}, "the zero Timer")
		goOn, runs, next := make(chan struct{}), 0, time.Time{}
		timer := arm(t, e, time.Minute, taskFunc(func(self schedule.Timer) {
			if runs++; runs < 3 {
				none(self, "Run has begun")
				assert.True(t, self.Reset(time.Hour))
				assert.True(t, self.Reset(time.Second))
				if at := due(self, time.Second); runs == 1 {
					next = at
				}
				<-goOn
			}
		}))
		due(timer, time.Minute)
		for _, d := range []time.Duration{100 * 24 * time.Hour, time.Second, 1} {
			require.True(t, timer.Reset(d))
			due(timer, d)
		}
		same := func(when string) {
			t.Helper()
			at, ok := timer.Deadline()
			assert.True(t, ok && at.Equal(next), when)
		}
		advance(1 + c.Slack)
		same("the Run in progress has called Reset")
		goOn <- struct{}{}
		advance(0)
		same("that Run has returned")
		advance(time.Second + c.Slack)
		assert.True(t, timer.Stop())
		none(timer, "stopped during Run")
		goOn <- struct{}{}
		advance(time.Hour)
		none(timer, "stopped")
		timer = arm(t, e, 0, taskFunc(func(schedule.Timer) {}))
		advance(1 + c.Slack)
		none(timer, "fired")
		timer = arm(t, e, time.Hour, taskFunc(func(schedule.Timer) {}))
		next = due(timer, time.Hour)
		advance(time.Minute)
		same("another minute has passed")
		e.Close()
		none(timer, "the engine is closed")
	}},
	{"E4_Deadline_while_the_timer_fires_and_moves", func(t *caseT, c Config) {
		e, step := newEngine(t, c, Options{}), max(c.Slack, time.Millisecond)
		var moving sync.WaitGroup
		for g := range 4 {
			moving.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 3))
				timer, err := e.Schedule(step, taskFunc(func(self schedule.Timer) { self.Reset(step) }))
				if !assert.NoError(t, err) {
					return
				}
				for i := range 500 {
					if i%8 == 0 {
						timer.Reset(time.Duration(1+rng.Int64N(3)) * step)
					}
					if at, ok := timer.Deadline(); ok {
						assert.LessOrEqual(t, time.Until(at), 4*step)
						assert.GreaterOrEqual(t, time.Until(at), -step)
					}
					time.Sleep(time.Duration(rng.Int64N(int64(step))))
				}
				timer.StopAndWait()
				_, ok := timer.Deadline()
				assert.False(t, ok)
			})
		}
		moving.Wait()
	}},
	{"E4_Run_of_one_timer_never_overlaps_itself", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		var inside, runs atomic.Int64
		timer := arm(t, e, time.Millisecond, taskFunc(func(self schedule.Timer) {
			runs.Add(1)
			assert.EqualValues(t, 1, inside.Add(1))
			self.Reset(time.Millisecond) // due before this Run ends
			time.Sleep(time.Second)
			inside.Add(-1)
		}))
		advance(10 * time.Second)
		timer.Stop()
		assert.Greater(t, runs.Load(), int64(3))
		advance(10 * time.Second)
	}},
}

// block blocks all workers of the engine for an hour, with tasks that break their
// contract. It skips the case if the engine has unlimited workers.
func block(t *caseT, e Engine, c Config) {
	t.Helper()
	if c.Workers == Unlimited {
		t.Skip("a due timer never waits for a worker")
	}
	for range c.workers() {
		arm(t, e, 0, taskFunc(func(schedule.Timer) { time.Sleep(time.Hour) }))
	}
	advance(c.Slack + 1)
}

// movedTimer is a timer that is often reset from outside its Run.
type movedTimer struct {
	mu     sync.Mutex // guards all below
	timer  schedule.Timer
	due    time.Duration // since the start of the case
	before time.Duration // the due time before the last Reset
	reset  time.Time     // of the last Reset
	armed  bool          // a Run must follow
}

// arm calls f, which schedules or resets the timer and returns its new due time.
func (x *movedTimer) arm(f func(x *movedTimer) (due time.Duration, ok bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if due, ok := f(x); ok {
		x.before, x.due, x.reset, x.armed = x.due, due, time.Now(), true
	}
}

// run is called by Run. If the timer was reset at this instant, Run may have begun before and waited
// for mu. The clock of a bubble stands still meanwhile.
func (x *movedTimer) run(t *caseT, c Config, now time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	began := x.due
	if now < x.due && time.Now().Equal(x.reset) {
		began = x.before
	}
	assert.GreaterOrEqual(t, now, began, "early")
	assert.LessOrEqual(t, now, began+c.Slack, "late")
	x.armed = now < x.due
}
