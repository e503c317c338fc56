// The cases of AfterFunc and Every.

package scheduletest

import (
	"runtime"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// minGap is the shortest time between two calls of Every, as documented.
const minGap = 10 * time.Microsecond

var funcCases = []testCase{
	{"AfterFunc_may_block", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		_, err := schedule.AfterFunc(e, time.Second, func() {
			rec.record(0)
			time.Sleep(time.Hour)
		})
		require.NoError(t, err)
		_, err = schedule.AfterFunc(e, 2*time.Second, func() { rec.record(1) })
		require.NoError(t, err)
		stopped, err := schedule.AfterFunc(e, 2*time.Second, func() { rec.record(2) })
		require.NoError(t, err)
		assert.True(t, stopped.Stop())
		advance(2*time.Second + c.Slack)
		assert.Equal(t, 1, rec.count(0))
		assert.Equal(t, 1, rec.count(1))
		advance(2 * time.Hour)
		assert.Equal(t, 0, rec.count(2))
		_, err = schedule.AfterFunc(e, time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
	}},
	{"Every_does_not_drift", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer, err := schedule.Every(e, time.Second, func() { rec.record(0) })
		require.NoError(t, err)
		advance(100*time.Second + c.Slack)
		assert.True(t, timer.Stop())
		advance(time.Hour)
		runs := rec.all()
		require.Len(t, runs, 100)
		for i, r := range runs {
			least := time.Duration(i+1) * time.Second
			assert.GreaterOrEqual(t, r.at, least, "call %d is early", i)
			assert.LessOrEqual(t, r.at, least+c.Slack, "call %d is late", i)
		}
	}},
	{"Every_skips_missed_calls_and_never_overlaps", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		var inside atomic.Int64
		timer, err := schedule.Every(e, time.Second, func() {
			assert.EqualValues(t, 1, inside.Add(1))
			defer inside.Add(-1)
			rec.record(0)
			if rec.count(0) == 1 {
				time.Sleep(10*time.Second + 500*time.Millisecond)
			}
		})
		require.NoError(t, err)
		advance(15*time.Second + 500*time.Millisecond)
		timer.Stop()
		assert.Equal(t, 1+4, rec.count(0), "the calls at 1, 12, 13, 14 and 15 s")
	}},
	{"Every_keeps_a_shortest_gap", func(t *caseT, c Config) {
		for _, period := range []time.Duration{1, 999, 3 * time.Microsecond, minGap + 1} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer, err := schedule.Every(e, period, func() { rec.record(0) })
			require.NoError(t, err)
			advance(100*minGap + c.Slack)
			timer.Stop()
			synctest.Wait()
			runs := rec.all()
			require.NotEmpty(t, runs)
			assert.LessOrEqual(t, len(runs), 101+int(c.Slack/minGap))
			for i, r := range runs[1:] {
				assert.GreaterOrEqual(t, r.at-runs[i].at, minGap, "call %d is too soon", i+1)
				assert.Less(t, r.at-runs[i].at, minGap+period+max(c.Slack, 1), "a call before call %d was skipped", i+1)
			}
		}
	}},
	{"EveryWith_catches_up_or_delays", func(t *caseT, c Config) {
		const late = 5500 * time.Millisecond // the end of the first call
		for missed, want := range map[schedule.MissedCalls][]time.Duration{
			schedule.CatchUpMissed: {time.Second, late, late, late, late, 6 * time.Second, 7 * time.Second, 8 * time.Second},
			schedule.DelayMissed:   {time.Second, late, late + time.Second, late + 2*time.Second},
		} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer, err := schedule.EveryWith(e, time.Second, missed, slowFirstCall(t, rec))
			require.NoError(t, err)
			advance(8*time.Second + c.Slack)
			timer.Stop()
			assertCalls(t, c, rec, want...)
		}
	}},
	{"EveryWith_applies_the_policy_to_a_call_that_Reset_postpones", func(t *caseT, c Config) {
		for missed, want := range map[schedule.MissedCalls][]time.Duration{
			schedule.SkipMissed:    {3500 * time.Millisecond, 4 * time.Second},
			schedule.CatchUpMissed: {3500 * time.Millisecond, 3500 * time.Millisecond, 3500 * time.Millisecond, 4 * time.Second},
			schedule.DelayMissed:   {3500 * time.Millisecond, 4500 * time.Millisecond},
		} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer, err := schedule.EveryWith(e, time.Second, missed, func() { rec.record(0) })
			require.NoError(t, err)
			require.True(t, timer.Reset(3500*time.Millisecond))
			advance(4600*time.Millisecond + c.Slack)
			timer.Stop()
			assertCalls(t, c, rec, want...)
		}
	}},
	{"EveryWith_gives_up_missed_calls_after_Stop_and_Close", func(t *caseT, c Config) {
		for _, missed := range []schedule.MissedCalls{schedule.CatchUpMissed, schedule.DelayMissed} {
			for _, closes := range []bool{false, true} {
				e, rec := newEngine(t, c, Options{}), newRecorder()
				timer, err := schedule.EveryWith(e, time.Second, missed, slowFirstCall(t, rec))
				require.NoError(t, err)
				advance(3*time.Second + c.Slack)
				if closes {
					e.Close()
				} else {
					assert.True(t, timer.Stop())
				}
				advance(time.Minute)
				assert.Equal(t, 1, rec.count(0))
			}
		}
	}},
	{"EveryWith_keeps_a_shortest_period", func(t *caseT, c Config) {
		for _, missed := range []schedule.MissedCalls{schedule.CatchUpMissed, schedule.DelayMissed} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer, err := schedule.EveryWith(e, 1, missed, func() { rec.record(0) })
			require.NoError(t, err)
			advance(100*minGap + c.Slack)
			timer.Stop()
			synctest.Wait()
			assert.NotZero(t, rec.count(0))
			assert.LessOrEqual(t, rec.count(0), 101+int(c.Slack/minGap))
		}
	}},
	{"EveryWith_continues_after_Goexit", func(t *caseT, c Config) {
		for _, missed := range []schedule.MissedCalls{schedule.SkipMissed, schedule.CatchUpMissed, schedule.DelayMissed} {
			e, rec := newEngine(t, c, Options{}), newRecorder()
			timer, err := schedule.EveryWith(e, time.Second, missed, func() {
				rec.record(0)
				runtime.Goexit()
			})
			require.NoError(t, err)
			advance(3*time.Second + c.Slack)
			timer.Stop()
			assert.Equal(t, 3, rec.count(0))
		}
	}},
	{"Every_returns_an_error_for_bad_arguments", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		_, err := schedule.Every(e, time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
		for _, period := range []time.Duration{0, -time.Second} {
			_, err = schedule.Every(e, period, func() {})
			require.ErrorContains(t, err, "period")
		}
		for _, missed := range []schedule.MissedCalls{-1, 3} {
			_, err = schedule.EveryWith(e, time.Second, missed, func() {})
			require.ErrorContains(t, err, "MissedCalls")
		}
		assert.Empty(t, e.Close())
	}},
	{"Every_ends_with_the_engine", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		_, err := schedule.Every(e, time.Second, func() { rec.record(0) })
		require.NoError(t, err)
		advance(3*time.Second + c.Slack)
		e.Close()
		synctest.Wait()
		ran := len(rec.all())
		advance(time.Hour)
		assert.Len(t, rec.all(), ran)
	}},
}

// slowFirstCall returns a func that records its calls. The first call takes 4.5 s, and no
// other call may begin meanwhile.
func slowFirstCall(t *caseT, rec *recorder) func() {
	var inside atomic.Int64
	return func() {
		assert.EqualValues(t, 1, inside.Add(1), "calls overlap")
		defer inside.Add(-1)
		rec.record(0)
		if rec.count(0) == 1 {
			time.Sleep(4500 * time.Millisecond)
		}
	}
}

// assertCalls checks that the recorded calls began at the wanted instants, late by the
// slack at most. A call that follows a late one can be late by the slack of both.
func assertCalls(t *caseT, c Config, rec *recorder, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	runs := rec.all()
	if !assert.Len(t, runs, len(want)) {
		return
	}
	for i, r := range runs {
		assert.GreaterOrEqual(t, r.at, want[i], "call %d is early", i)
		assert.LessOrEqual(t, r.at, want[i]+2*c.Slack, "call %d is late", i)
	}
}
