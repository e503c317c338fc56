// The cases of a limited number of timers.

package scheduletest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var maxPendingCases = []testCase{
	{"MaxPending_is_exact", func(t *caseT, c Config) {
		const limit = 100
		e, rec := newEngine(t, c, Options{MaxPending: limit}), newRecorder()
		var taken, refused atomic.Int64
		var wg sync.WaitGroup
		timers := make([]schedule.Timer, limit)
		for range 8 {
			wg.Go(func() {
				for range limit {
					timer, err := e.Schedule(time.Hour, rec.task(0))
					if err == nil {
						timers[taken.Add(1)-1] = timer
						continue
					}
					assert.ErrorIs(t, err, schedule.ErrFull)
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, limit, taken.Load())
		require.EqualValues(t, 7*limit, refused.Load())

		assert.True(t, timers[0].Reset(time.Minute), "Reset succeeds although the engine is full")
		assert.True(t, timers[1].Stop())
		_, err := e.Schedule(time.Hour, rec.task(0))
		require.NoError(t, err, "a stopped timer does not count")
		_, err = e.Schedule(time.Hour, rec.task(0))
		require.ErrorIs(t, err, schedule.ErrFull)
		advance(2 * time.Hour)
		assert.Len(t, rec.all(), limit)
		for range limit {
			_, err = e.Schedule(time.Hour, rec.task(0))
			require.NoError(t, err, "timers that have fired do not count")
		}
	}},
	{"MaxPending_is_exact_under_contention", func(t *caseT, c Config) {
		const limit = 2
		e := newEngine(t, c, Options{MaxPending: limit})
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5_000 {
					timer, err := e.Schedule(time.Hour, taskFunc(func(schedule.Timer) {}))
					if err != nil {
						continue
					}
					if n := inside.Add(1); n > most.Load() {
						most.Store(n)
					}
					inside.Add(-1)
					timer.Stop()
				}
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, most.Load(), int64(limit))
		c.checkPending(t, e, 0)
		for range limit {
			_, err := e.Schedule(time.Hour, taskFunc(func(schedule.Timer) {}))
			require.NoError(t, err, "stopped timers do not count")
		}
	}},
	{"MaxPending_never_refuses_a_Reset_inside_Run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{MaxPending: 1}), newRecorder()
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			rec.record(0)
			_, err := e.Schedule(time.Second, rec.task(1))
			assert.ErrorIs(t, err, schedule.ErrFull, "a timer counts until its Run has returned")
			if rec.count(0) < 3 {
				assert.True(t, self.Reset(time.Second))
			}
		}))
		advance(time.Minute)
		assert.Equal(t, 3, rec.count(0))
		arm(t, e, time.Second, rec.task(1))
	}},
	{"Pending_never_exceeds_MaxPending", func(t *caseT, c Config) {
		if c.Pending == nil {
			t.Skip("Config.Pending is nil")
		}
		const limit = 100
		e := newEngine(t, c, Options{MaxPending: limit})
		var busy atomic.Int64
		for range 4 {
			busy.Add(1)
			go func() {
				defer busy.Add(-1)
				for range 500 { // fills the engine and empties it again
					var timers []schedule.Timer
					for range limit {
						if timer, err := e.Schedule(time.Hour, taskFunc(func(schedule.Timer) {})); err == nil {
							timers = append(timers, timer)
						}
					}
					for _, timer := range timers {
						timer.Stop()
					}
				}
			}()
		}
		for most := 0; busy.Load() > 0; {
			if n := c.Pending(e); n > most {
				most = n
				require.LessOrEqual(t, most, limit, "Pending exceeds MaxPending")
			}
		}
		c.checkPending(t, e, 0)
	}},
	{"MaxPending_counts_a_timer_until_its_Run_has_returned", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{MaxPending: 1})
		c.checkPending(t, e, 0)
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			c.checkPending(t, e, 1)
			assert.False(t, self.Stop(), "Run has begun")
			c.checkPending(t, e, 1)
			_, err := e.Schedule(time.Second, newRecorder().task(0))
			assert.ErrorIs(t, err, schedule.ErrFull, "a timer that was stopped during Run counts until that Run has returned")
		}))
		c.checkPending(t, e, 1)
		advance(time.Second + c.Slack)
		c.checkPending(t, e, 0)
		arm(t, e, time.Hour, newRecorder().task(0))
		c.checkPending(t, e, 1)
		assert.Len(t, e.Close(), 1)
		c.checkPending(t, e, 0)
	}},
}
