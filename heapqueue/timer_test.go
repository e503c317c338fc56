package heapqueue_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// TestResetAndStopDuringRun calls Reset to an hour later (R) and Stop (S) in the order of
// each script, during Run. A second worker is idle meanwhile.
func TestResetAndStopDuringRun(t *testing.T) {
	for script, want := range map[string]struct {
		answers string
		again   bool
	}{
		"":     {"", false},
		"R":    {"y", true},
		"RR":   {"yy", true},
		"S":    {"n", false},
		"SR":   {"nn", false},
		"SS":   {"nn", false},
		"RS":   {"yy", false},
		"RSS":  {"yyn", false},
		"RSR":  {"yyn", false},
		"RRSR": {"yyyn", false},
	} {
		for _, inside := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, &heapqueue.Options{Workers: 2, MaxPending: 1})
				var runs atomic.Int64
				play := func(timer schedule.Timer) {
					answers := ""
					for _, op := range script {
						did := op == 'R' && timer.Reset(time.Hour) || op == 'S' && timer.Stop()
						answers += map[bool]string{true: "y", false: "n"}[did]
					}
					assert.Equal(t, want.answers, answers, "script %q", script)
				}
				timer := at(t, s, time.Second, func(self schedule.Timer) {
					if runs.Add(1) == 1 && inside {
						play(self)
					}
					time.Sleep(time.Minute)
				})
				settle(2 * time.Second)
				if !inside {
					play(timer)
				}
				settle(10 * time.Minute)
				assert.EqualValues(t, 1, runs.Load())
				assert.Equal(t, want.again, s.Stats().Pending == 1, "script %q", script)
				settle(time.Hour)
				assert.Equal(t, want.again, runs.Load() == 2, "script %q", script)
				assert.Zero(t, s.Stats().Pending)
				assert.False(t, timer.Reset(time.Hour), "the timer is done")
			})
		}
	}
}

func TestRunsOfOneTimerDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, &heapqueue.Options{Workers: 3})
		start := time.Now()
		var begun []time.Duration // without a lock, so that the race detector finds Runs that overlap
		at(t, s, time.Second, func(self schedule.Timer) {
			begun = append(begun, time.Since(start))
			if len(begun) < 3 {
				self.Reset(time.Second)
			}
			time.Sleep(time.Minute)
		})
		settle(time.Hour)
		assert.Equal(t, []time.Duration{time.Second, time.Minute + time.Second, 2*time.Minute + time.Second}, begun)
	})
}

func TestANegativeDelayCountsAsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		hot := at(t, s, 0, func(self schedule.Timer) {
			time.Sleep(time.Millisecond)
			self.Reset(-time.Hour)
		})
		var ran atomic.Bool
		at(t, s, time.Second, func(schedule.Timer) { ran.Store(true) })
		settle(time.Second + time.Millisecond)
		assert.True(t, ran.Load())
		hot.Stop()
	})
}

func TestOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type report struct {
			task  schedule.Task
			value any
		}
		var reports []report
		var stacks []byte
		var s *heapqueue.Scheduler
		s = open(t, &heapqueue.Options{OnPanic: func(task schedule.Task, value any, stack []byte) {
			reports = append(reports, report{task, value})
			stacks = append(stacks, stack...)
			assert.EqualValues(t, len(reports), s.Stats().Panics, "the panic is counted and no lock is held")
			runtime.Goexit() // OnPanic does not end the worker
		}})
		task := &namedTask{"breaks", breaks}
		for range 2 {
			_, err := s.Schedule(time.Second, task)
			require.NoError(t, err)
		}
		var ran atomic.Bool
		at(t, s, time.Minute, func(schedule.Timer) { ran.Store(true) })
		settle(time.Hour)
		assert.Equal(t, []report{{task, "broken"}, {task, "broken"}}, reports)
		assert.Contains(t, string(stacks), "heapqueue_test.breaks")
		assert.True(t, ran.Load())
	})
}

func breaks(schedule.Timer) { panic("broken") }

func TestAPanicIsLoggedWithoutOnPanic(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	for name, o := range map[string]*heapqueue.Options{"Logger": {Logger: logger}, "slog.Default": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out.Reset()
				s := open(t, o)
				if o == nil {
					defer slog.SetDefault(slog.Default())
					slog.SetDefault(logger)
				}
				_, err := s.Schedule(0, &namedTask{"breaks", breaks})
				require.NoError(t, err)
				settle(time.Second)
				var record map[string]string
				require.NoError(t, json.Unmarshal(out.Bytes(), &record))
				assert.Equal(t, "ERROR", record["level"])
				assert.Equal(t, "heapqueue: task panicked", record["msg"])
				assert.Equal(t, "*heapqueue_test.namedTask", record["task"])
				assert.Equal(t, "broken", record["panic"])
				assert.Contains(t, record["stack"], "heapqueue_test.breaks")
			})
		})
	}
}

func TestResetBeforeGoexit(t *testing.T) {
	for _, workers := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, &heapqueue.Options{Workers: workers, MaxPending: 1})
			var runs atomic.Int64
			at(t, s, time.Second, func(self schedule.Timer) {
				if runs.Add(1) < 5 {
					self.Reset(time.Second)
				}
				runtime.Goexit()
			})
			settle(time.Minute)
			assert.EqualValues(t, 5, runs.Load())
			at(t, s, time.Second, nil).Stop() // MaxPending allows another timer
		})
	}
}
