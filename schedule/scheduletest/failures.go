// The cases of tasks that panic or call runtime.Goexit.

package scheduletest

import (
	"runtime"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var failureCases = []testCase{
	{"a_panic_is_recovered_and_reported", func(t *caseT, c Config) {
		var mu sync.Mutex // guards reported
		var reported []any
		e := newEngine(t, c, Options{OnPanic: func(v any) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, v)
		}})
		rec := newRecorder()
		for id := range 10 {
			arm(t, e, time.Second, taskFunc(func(schedule.Timer) {
				rec.record(id)
				panic(id)
			}))
		}
		arm(t, e, time.Minute, rec.task(99))
		advance(time.Minute + c.Slack)
		assert.Len(t, rec.all(), 11)
		assert.ElementsMatch(t, []any{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, reported)
	}},
	{"a_Goexit_does_not_stop_the_engine", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		for id := range 10 {
			arm(t, e, time.Second, taskFunc(func(schedule.Timer) {
				rec.record(id)
				runtime.Goexit()
			}))
		}
		arm(t, e, time.Minute, rec.task(99))
		advance(time.Minute + c.Slack)
		assert.Len(t, rec.all(), 11)
	}},
	{"a_task_that_panics_or_exits_after_Reset_fires_again", func(t *caseT, c Config) {
		for _, end := range []func(){func() { panic("after Reset") }, runtime.Goexit} {
			e, rec := newEngine(t, c, Options{OnPanic: func(any) {}}), newRecorder()
			arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
				rec.record(0)
				if rec.count(0) < 3 {
					self.Reset(time.Second)
				}
				end()
			}))
			advance(time.Minute)
			assert.Equal(t, 3, rec.count(0))
		}
	}},
	{"a_nil_task_is_refused", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		_, err := e.Schedule(time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
		assert.Empty(t, e.Close())
	}},
}
