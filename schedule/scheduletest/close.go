// The cases of Close.

package scheduletest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var closeCases = []testCase{
	{"E5_Close_returns_pending_tasks", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		want := map[*int]bool{}
		for i := range 100 {
			task := &idTask{id: new(int), rec: rec}
			timer := arm(t, e, time.Duration(i+1)*time.Minute, task)
			if i%10 == 9 {
				timer.Stop()
			} else if i >= 50 {
				want[task.id] = true
			}
		}
		advance(50*time.Minute + c.Slack)
		ran := len(rec.all())
		assert.Equal(t, 45, ran)

		for _, task := range e.Close() {
			id := task.(*idTask).id
			assert.True(t, want[id], "Close returned a task that ran or was stopped, or returned it twice")
			delete(want, id)
		}
		assert.Empty(t, want, "tasks that Close did not return")
		advance(24 * time.Hour)
		assert.Len(t, rec.all(), ran, "a task ran after Close")
	}},
	{"E5_calls_after_Close", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		timer := arm(t, e, time.Second, rec.task(0))
		assert.Len(t, e.Close(), 1)
		_, err := e.Schedule(time.Second, rec.task(1))
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.False(t, timer.Reset(time.Second))
		assert.False(t, timer.Stop(), "Close has returned the task")
		assert.Empty(t, e.Close(), "the first Close has returned all tasks")
		advance(time.Hour)
		assert.Empty(t, rec.all())
	}},
	{"E5_Close_of_an_unused_engine", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		assert.Empty(t, e.Close())
		_, err := e.Schedule(0, newRecorder().task(0))
		require.ErrorIs(t, err, schedule.ErrClosed)
	}},
	{"E5_Close_waits_for_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		var ended atomic.Bool
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			time.Sleep(time.Minute)
			assert.False(t, self.Reset(time.Second), "the engine is closed")
			ended.Store(true)
		}))
		advance(time.Second + c.Slack + time.Second)
		assert.Empty(t, e.Close(), "the running task is not pending")
		assert.True(t, ended.Load(), "Close returned while a Run was in progress")
	}},
	{"E5_Close_returns_due_tasks_that_have_not_run", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		block(t, e, c)
		for id := range 1000 {
			arm(t, e, time.Second, rec.task(id))
		}
		advance(time.Second + c.Slack)
		tasks := e.Close()
		assert.Empty(t, rec.all())
		assert.GreaterOrEqual(t, len(tasks), 1000)
	}},
	{"E5_Close_returns_a_task_reset_inside_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		var runs atomic.Int64
		arm(t, e, time.Second, taskFunc(func(self schedule.Timer) {
			runs.Add(1)
			assert.True(t, self.Reset(time.Second))
			time.Sleep(time.Minute)
		}))
		advance(time.Second + c.Slack + time.Second)
		assert.Len(t, e.Close(), 1)
		advance(time.Hour)
		assert.EqualValues(t, 1, runs.Load())
	}},
	{"E5_timers_have_ended_while_Close_waits", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		arm(t, e, time.Second, taskFunc(func(schedule.Timer) { time.Sleep(time.Minute) }))
		pending := arm(t, e, time.Hour, rec.task(0))
		advance(time.Second + c.Slack)
		returned := make(chan int)
		go func() { returned <- len(e.Close()) }()
		synctest.Wait()
		assert.False(t, pending.Stop(), "Close returns the task")
		assert.False(t, pending.Reset(time.Second))
		assert.Equal(t, 1, <-returned)
	}},
	{"E5_every_Close_waits_for_Run", func(t *caseT, c Config) {
		e := newEngine(t, c, Options{})
		arm(t, e, time.Second, taskFunc(func(schedule.Timer) { time.Sleep(time.Minute) }))
		advance(time.Second + c.Slack)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				assert.Empty(t, e.Close())
				assert.Greater(t, time.Since(start), time.Minute-c.Slack-1, "Close %d returned while a Run was in progress", i)
			})
		}
		wg.Wait()
	}},
	{"E5_concurrent_Close_returns_each_task_once", func(t *caseT, c Config) {
		e, rec := newEngine(t, c, Options{}), newRecorder()
		for id := range 100 {
			arm(t, e, time.Hour, rec.task(id))
		}
		var returned atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { returned.Add(int64(len(e.Close()))) })
		}
		wg.Wait()
		assert.EqualValues(t, 100, returned.Load())
	}},
	{"E5_Close_calls_EngineClosed_of_the_tasks_it_returns", func(t *caseT, c Config) {
		e, log := newEngine(t, c, Options{}), new(closeLog)
		ran := arm(t, e, time.Second, &handlerTask{log: log})
		advance(time.Second + c.Slack)
		stopped := arm(t, e, time.Minute, &handlerTask{log: log})
		assert.True(t, stopped.Stop())
		var pending []schedule.Task
		for i := range 100 {
			task := &handlerTask{log: log}
			timer := arm(t, e, time.Duration(i+1)*time.Minute, task)
			task.closed = func() {
				assert.False(t, timer.Reset(time.Second), "the engine is closed")
				assert.False(t, timer.Stop())
				assert.False(t, ran.Stop())
				_, err := e.Schedule(time.Second, task)
				assert.ErrorIs(t, err, schedule.ErrClosed)
			}
			pending = append(pending, task)
		}
		arm(t, e, time.Minute, newRecorder().task(0)) // no CloseHandler
		assert.Len(t, e.Close(), 101)
		assert.ElementsMatch(t, pending, log.all(), "one call for each task that Close returned")
		assert.Empty(t, e.Close())
		assert.Len(t, log.all(), 100, "a second Close calls no EngineClosed")
	}},
	{"E5_EngineClosed_comes_after_the_last_Run", func(t *caseT, c Config) {
		e, log := newEngine(t, c, Options{}), new(closeLog)
		var running atomic.Bool
		rearmed := &handlerTask{log: log, closed: func() { assert.False(t, running.Load(), "a Run was in progress") }}
		rearmed.run = func(self schedule.Timer) {
			running.Store(true)
			assert.True(t, self.Reset(time.Second))
			time.Sleep(time.Minute)
			running.Store(false)
		}
		arm(t, e, time.Second, rearmed)
		waiting := &handlerTask{log: log, closed: rearmed.closed}
		arm(t, e, time.Hour, waiting)
		advance(time.Second + c.Slack + time.Second)
		assert.Len(t, e.Close(), 2)
		assert.ElementsMatch(t, []schedule.Task{rearmed, waiting}, log.all())
	}},
	{"E5_a_panic_in_EngineClosed_is_recovered", func(t *caseT, c Config) {
		var reported []any
		e, log := newEngine(t, c, Options{OnPanic: func(v any) { reported = append(reported, v) }}), new(closeLog)
		for i := range 10 {
			arm(t, e, time.Hour, &handlerTask{log: log, closed: func() {
				if i%2 == 0 {
					panic(i)
				}
			}})
		}
		assert.Len(t, e.Close(), 10)
		assert.Len(t, log.all(), 10)
		assert.ElementsMatch(t, []any{0, 2, 4, 6, 8}, reported)
	}},
	{"E5_a_Goexit_in_EngineClosed_skips_no_other_task", func(t *caseT, c Config) {
		e, log := newEngine(t, c, Options{}), new(closeLog)
		for range 10 {
			arm(t, e, time.Hour, &handlerTask{log: log, closed: runtime.Goexit})
		}
		go e.Close()
		synctest.Wait()
		assert.Len(t, log.all(), 10)
		assert.Empty(t, e.Close())
	}},
}

// handlerTask is a Task that records the calls of EngineClosed.
type handlerTask struct {
	log    *closeLog
	run    func(schedule.Timer) // may be nil
	closed func()               // may be nil
}

func (h *handlerTask) Run(t schedule.Timer) {
	if h.run != nil {
		h.run(t)
	}
}

func (h *handlerTask) EngineClosed() {
	h.log.mu.Lock()
	h.log.tasks = append(h.log.tasks, h)
	h.log.mu.Unlock()
	if h.closed != nil {
		h.closed()
	}
}

// closeLog lists the tasks whose EngineClosed was called.
type closeLog struct {
	mu    sync.Mutex // guards tasks
	tasks []schedule.Task
}

func (l *closeLog) all() []schedule.Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]schedule.Task(nil), l.tasks...)
}

// idTask is a Task with an identity.
type idTask struct {
	id  *int
	rec *recorder
}

func (i *idTask) Run(schedule.Timer) { i.rec.record(0) }
