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
