package scheduletest_test

import (
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/schedule/scheduletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Engine is a small engine on top of time.AfterFunc. Each Run has a goroutine of its own.
type Engine struct {
	options scheduletest.Options

	mu      sync.Mutex // guards all below, and the timers
	ended   sync.Cond  // a Run has ended
	timers  map[uint64]*timer
	lastID  uint64
	running int
	closed  bool
}

type timer struct {
	task    schedule.Task
	clock   *time.Timer
	due     time.Time
	pending bool // Run is to be called at due
	running bool
	stopped bool
}

// NewEngine returns an engine.
func NewEngine(o scheduletest.Options) *Engine {
	if o.OnPanic == nil {
		o.OnPanic = func(value any) { log.Print("panic in a task: ", value) }
	}
	e := &Engine{options: o, timers: map[uint64]*timer{}}
	e.ended.L = &e.mu
	return e
}

// Schedule implements [schedule.Scheduler].
func (e *Engine) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case t == nil:
		return schedule.Timer{}, schedule.ErrNilTask
	case e.closed:
		return schedule.Timer{}, schedule.ErrClosed
	case e.options.MaxPending > 0 && len(e.timers) >= e.options.MaxPending:
		return schedule.Timer{}, schedule.ErrFull
	}
	e.lastID++ // an id is never used again, so that an old handle affects no other timer
	id, x := e.lastID, &timer{task: t, due: time.Now().Add(d), pending: true}
	x.clock = time.AfterFunc(d, func() { e.run(id, x) })
	e.timers[id] = x
	return schedule.NewTimer(e, id), nil
}

func (e *Engine) run(id uint64, x *timer) {
	e.mu.Lock()
	if e.closed || x.running || !x.pending || time.Now().Before(x.due) { // Stop, Reset or Close came first
		e.mu.Unlock()
		return
	}
	x.pending, x.running = false, true
	e.running++
	e.mu.Unlock()
	defer e.end(id, x) // also after a panic and after runtime.Goexit
	x.task.Run(schedule.NewTimer(e, id))
}

func (e *Engine) end(id uint64, x *timer) {
	if v := recover(); v != nil {
		e.options.OnPanic(v)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	x.running = false
	e.running--
	if x.pending { // Reset was called during Run
		x.clock.Reset(time.Until(x.due))
	} else {
		delete(e.timers, id)
	}
	e.ended.Broadcast()
}

// ResetTimer implements [schedule.TimerOwner].
func (e *Engine) ResetTimer(id uint64, d time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.timers[id]
	if x == nil || x.stopped || e.closed {
		return false
	}
	x.due, x.pending = time.Now().Add(d), true
	if !x.running { // otherwise the next Run begins after this one
		x.clock.Reset(d)
	}
	return true
}

// StopTimer implements [schedule.TimerOwner].
func (e *Engine) StopTimer(id uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.timers[id]
	if x == nil || e.closed {
		return false
	}
	prevented := x.pending
	x.pending, x.stopped = false, true
	x.clock.Stop()
	if !x.running {
		delete(e.timers, id)
	}
	return prevented
}

// AwaitTimer implements [schedule.TimerOwner].
func (e *Engine) AwaitTimer(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for x := e.timers[id]; x != nil && x.running; {
		e.ended.Wait()
	}
}

// TimerDeadline implements [schedule.TimerOwner].
func (e *Engine) TimerDeadline(id uint64) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.timers[id]
	if x == nil || !x.pending || e.closed {
		return time.Time{}, false
	}
	return x.due, true
}

// Close stops the engine; see package schedule.
func (e *Engine) Close() []schedule.Task {
	e.mu.Lock()
	e.closed = true
	for e.running > 0 {
		e.ended.Wait()
	}
	var tasks []schedule.Task
	for _, x := range e.timers { // all are pending
		x.clock.Stop()
		tasks = append(tasks, x.task)
	}
	clear(e.timers)
	e.mu.Unlock()
	schedule.NotifyClosed(tasks, func(_ schedule.Task, value any) { e.options.OnPanic(value) })
	return tasks
}

// TestContract is how an engine runs the suite.
func TestContract(t *testing.T) {
	scheduletest.Test(t, scheduletest.Config{
		New:     func(_ *testing.T, o scheduletest.Options) scheduletest.Engine { return NewEngine(o) },
		Workers: scheduletest.Unlimited,
		Pending: func(e scheduletest.Engine) int {
			engine := e.(*Engine)
			engine.mu.Lock()
			defer engine.mu.Unlock()
			return len(engine.timers)
		},
	})
}

// A small engine that passes the suite.
func Example() {
	e := NewEngine(scheduletest.Options{OnPanic: func(value any) { fmt.Println("panic:", value) }})
	defer e.Close()
	done := make(chan struct{})
	if _, err := schedule.AfterFunc(e, time.Millisecond, func() { close(done) }); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	fmt.Println("fired")
	// Output: fired
}
