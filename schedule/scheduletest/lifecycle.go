package scheduletest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

var closing = []testCase{
	{"E5_Close_returns_what_never_ran", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		want := map[*int]bool{}
		for i := range 100 {
			task := &idTask{id: new(int), rec: rec}
			timer, err := e.Schedule(time.Duration(i+1)*time.Minute, task)
			require.NoError(t, err)
			if i%10 == 9 {
				timer.Stop()
			} else if i >= 50 {
				want[task.id] = true
			}
		}
		settle(50*time.Minute + c.Slack)
		ran := len(rec.all())
		assert.Equal(t, 45, ran)

		for _, task := range e.Close() {
			id := task.(*idTask).id
			assert.True(t, want[id], "returned a task that ran, was stopped or was returned before")
			delete(want, id)
		}
		assert.Empty(t, want, "tasks lost by Close")
		settle(24 * time.Hour)
		assert.Len(t, rec.all(), ran, "ran after Close")
	}},
	{"E5_a_closed_engine_refuses", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		timer, err := e.Schedule(time.Second, rec.task(0))
		require.NoError(t, err)
		assert.Len(t, e.Close(), 1)
		_, err = e.Schedule(time.Second, rec.task(1))
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.False(t, timer.Reset(time.Second))
		assert.False(t, timer.Stop(), "Close has taken it back already")
		assert.Empty(t, e.Close(), "a second Close has nothing left to return")
		settle(time.Hour)
		assert.Empty(t, rec.all())
	}},
	{"E5_Close_of_an_engine_never_used", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		assert.Empty(t, e.Close())
		_, err := e.Schedule(0, newRecorder().task(0))
		require.ErrorIs(t, err, schedule.ErrClosed)
	}},
	{"E5_Close_waits_for_Run_and_refuses_its_Reset", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		var ended atomic.Bool
		_, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			time.Sleep(time.Minute)
			assert.False(t, self.Reset(time.Second), "the engine is closed")
			ended.Store(true)
		}))
		require.NoError(t, err)
		settle(time.Second + c.Slack + time.Second)
		assert.Empty(t, e.Close(), "the running task is not unprocessed")
		assert.True(t, ended.Load(), "Close returned while a Run was in progress")
	}},
	{"E5_Close_returns_what_was_due_but_not_begun", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		holdUp(t, e, c)
		for id := range 1000 {
			_, err := e.Schedule(time.Second, rec.task(id))
			require.NoError(t, err)
		}
		settle(time.Second + c.Slack)
		tasks := e.Close()
		assert.Empty(t, rec.all())
		assert.GreaterOrEqual(t, len(tasks), 1000)
	}},
	{"E5_Close_returns_what_was_armed_again_in_Run", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		var runs atomic.Int64
		_, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			runs.Add(1)
			assert.True(t, self.Reset(time.Second))
			time.Sleep(time.Minute)
		}))
		require.NoError(t, err)
		settle(time.Second + c.Slack + time.Second)
		assert.Len(t, e.Close(), 1)
		settle(time.Hour)
		assert.EqualValues(t, 1, runs.Load())
	}},
	{"E5_timers_are_dead_while_Close_waits", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		_, err := e.Schedule(time.Second, taskFunc(func(schedule.Timer) { time.Sleep(time.Minute) }))
		require.NoError(t, err)
		pending, err := e.Schedule(time.Hour, rec.task(0))
		require.NoError(t, err)
		settle(time.Second + c.Slack)
		returned := make(chan int)
		go func() { returned <- len(e.Close()) }()
		synctest.Wait()
		assert.False(t, pending.Stop(), "Close will return it")
		assert.False(t, pending.Reset(time.Second))
		assert.Equal(t, 1, <-returned)
	}},
	{"E5_concurrent_Close_returns_each_task_once", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		for id := range 100 {
			_, err := e.Schedule(time.Hour, rec.task(id))
			require.NoError(t, err)
		}
		var returned atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { returned.Add(int64(len(e.Close()))) })
		}
		wg.Wait()
		assert.EqualValues(t, 100, returned.Load())
	}},
}

type idTask struct {
	id  *int
	rec *recorder
}

func (i *idTask) Run(schedule.Timer) { i.rec.note(0) }

var failing = []testCase{
	{"a_panic_stops_nothing_and_is_reported", func(t *testing.T, c Config) {
		var mu sync.Mutex // guards reported
		var reported []any
		e := open(t, c, Options{OnPanic: func(v any) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, v)
		}})
		rec := newRecorder()
		for id := range 10 {
			_, err := e.Schedule(time.Second, taskFunc(func(schedule.Timer) {
				rec.note(id)
				panic(id)
			}))
			require.NoError(t, err)
		}
		_, err := e.Schedule(time.Minute, rec.task(99))
		require.NoError(t, err)
		settle(time.Minute + c.Slack)
		assert.Len(t, rec.all(), 11)
		assert.ElementsMatch(t, []any{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, reported)
	}},
	{"a_Goexit_stops_nothing", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		for id := range 10 {
			_, err := e.Schedule(time.Second, taskFunc(func(schedule.Timer) {
				rec.note(id)
				runtime.Goexit()
			}))
			require.NoError(t, err)
		}
		_, err := e.Schedule(time.Minute, rec.task(99))
		require.NoError(t, err)
		settle(time.Minute + c.Slack)
		assert.Len(t, rec.all(), 11)
	}},
	{"a_task_that_panics_or_exits_after_Reset_fires_again", func(t *testing.T, c Config) {
		for _, end := range []func(){func() { panic("after Reset") }, runtime.Goexit} {
			e, rec := open(t, c, Options{OnPanic: func(any) {}}), newRecorder()
			_, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
				rec.note(0)
				if rec.count(0) < 3 {
					self.Reset(time.Second)
				}
				end()
			}))
			require.NoError(t, err)
			settle(time.Minute)
			assert.Equal(t, 3, rec.count(0))
		}
	}},
	{"MaxPending_is_exact", func(t *testing.T, c Config) {
		const limit = 100
		e, rec := open(t, c, Options{MaxPending: limit}), newRecorder()
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

		assert.True(t, timers[0].Reset(time.Minute), "Reset needs no room")
		assert.True(t, timers[1].Stop())
		_, err := e.Schedule(time.Hour, rec.task(0))
		require.NoError(t, err, "a stopped timer leaves its room")
		_, err = e.Schedule(time.Hour, rec.task(0))
		require.ErrorIs(t, err, schedule.ErrFull)
		settle(2 * time.Hour)
		assert.Len(t, rec.all(), limit)
		for range limit {
			_, err = e.Schedule(time.Hour, rec.task(0))
			require.NoError(t, err, "fired timers leave their room")
		}
	}},
	{"MaxPending_is_exact_under_contention", func(t *testing.T, c Config) {
		const limit = 2
		e := open(t, c, Options{MaxPending: limit})
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20_000 {
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
		for range limit {
			_, err := e.Schedule(time.Hour, taskFunc(func(schedule.Timer) {}))
			require.NoError(t, err, "all room has been given back")
		}
	}},
	{"MaxPending_never_refuses_a_Reset_inside_Run", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{MaxPending: 1}), newRecorder()
		_, err := e.Schedule(time.Second, taskFunc(func(self schedule.Timer) {
			rec.note(0)
			_, err := e.Schedule(time.Second, rec.task(1))
			assert.ErrorIs(t, err, schedule.ErrFull, "a running timer keeps its room until Run returns")
			if rec.count(0) < 3 {
				assert.True(t, self.Reset(time.Second))
			}
		}))
		require.NoError(t, err)
		settle(time.Minute)
		assert.Equal(t, 3, rec.count(0))
		_, err = e.Schedule(time.Second, rec.task(1))
		assert.NoError(t, err)
	}},
	{"a_nil_task_is_refused", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		_, err := e.Schedule(time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
		assert.Empty(t, e.Close())
	}},
}

var helping = []testCase{
	{"AfterFunc_may_block", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		_, err := schedule.AfterFunc(e, time.Second, func() {
			rec.note(0)
			time.Sleep(time.Hour)
		})
		require.NoError(t, err)
		_, err = schedule.AfterFunc(e, 2*time.Second, func() { rec.note(1) })
		require.NoError(t, err)
		stopped, err := schedule.AfterFunc(e, 2*time.Second, func() { rec.note(2) })
		require.NoError(t, err)
		assert.True(t, stopped.Stop())
		settle(2*time.Second + c.Slack)
		assert.Equal(t, 1, rec.count(0))
		assert.Equal(t, 1, rec.count(1))
		settle(2 * time.Hour)
		assert.Equal(t, 0, rec.count(2))
		_, err = schedule.AfterFunc(e, time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
	}},
	{"Every_stands_on_its_grid", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		timer, err := schedule.Every(e, time.Second, func() { rec.note(0) })
		require.NoError(t, err)
		settle(100*time.Second + c.Slack)
		assert.True(t, timer.Stop())
		settle(time.Hour)
		runs := rec.all()
		require.Len(t, runs, 100)
		for i, r := range runs {
			least := time.Duration(i+1) * time.Second
			assert.GreaterOrEqual(t, r.at, least, "call %d is early", i)
			assert.LessOrEqual(t, r.at, least+c.Slack, "call %d has drifted", i)
		}
	}},
	{"Every_skips_what_it_missed_and_never_overlaps", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		var inside atomic.Int64
		timer, err := schedule.Every(e, time.Second, func() {
			assert.EqualValues(t, 1, inside.Add(1))
			defer inside.Add(-1)
			rec.note(0)
			if rec.count(0) == 1 {
				time.Sleep(10*time.Second + 500*time.Millisecond)
			}
		})
		require.NoError(t, err)
		settle(15*time.Second + 500*time.Millisecond)
		timer.Stop()
		assert.Equal(t, 1+4, rec.count(0), "the first call, then those at 12, 13, 14 and 15 s")
	}},
	{"Every_refuses_bad_input", func(t *testing.T, c Config) {
		e := open(t, c, Options{})
		_, err := schedule.Every(e, time.Second, nil)
		require.ErrorIs(t, err, schedule.ErrNilTask)
		for _, period := range []time.Duration{0, -time.Second} {
			_, err = schedule.Every(e, period, func() {})
			require.ErrorContains(t, err, "period")
		}
		assert.Empty(t, e.Close())
	}},
	{"Every_ends_with_the_engine", func(t *testing.T, c Config) {
		e, rec := open(t, c, Options{}), newRecorder()
		_, err := schedule.Every(e, time.Second, func() { rec.note(0) })
		require.NoError(t, err)
		settle(3*time.Second + c.Slack)
		e.Close()
		synctest.Wait()
		ran := len(rec.all())
		settle(time.Hour)
		assert.Len(t, rec.all(), ran)
	}},
}
