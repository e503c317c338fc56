// Package schedule defines the contract between a timer engine and its users. A
// [Scheduler] runs each [Task] once after a delay, never early, and returns a [Timer]
// that can move or stop it.
//
// Packages wheel and heapqueue are the two engines of this module. Package scheduletest
// is the test suite that every engine must pass. The page [writing an engine] helps
// to write another one.
//
// # Close
//
// An engine has a method Close() []Task. Close stops the engine, waits until no Run is in
// progress, and returns the tasks of all timers that were still pending. It first calls
// EngineClosed of those that implement [CloseHandler]. After Close no Run starts, Schedule
// returns [ErrClosed], and Reset and Stop return false.
//
// Close may be called again and concurrently. Every call waits in the same way. Each task
// is returned by exactly one call, so no task is handled twice.
//
// Close must not be called from inside Run, because it waits for that Run.
//
// # Misuse
//
// A call that cannot do its work returns an error and changes nothing. This applies to a
// nil Task or func, a nil Scheduler, a period that is not positive, and the zero value of
// an engine. Methods of a nil pointer panic, as is usual in Go.
//
// [writing an engine]: https://github.com/leasewheel/leasewheel/blob/main/docs/EXTENDING.md#a-timer-engine
package schedule

import (
	"errors"
	"time"
)

var (
	// ErrClosed is returned by Schedule after the engine was closed.
	ErrClosed = errors.New("schedule: engine is closed")

	// ErrFull is returned by Schedule if the engine holds its maximum number of timers. A
	// timer counts from Schedule until it is stopped, or until its Run has returned without
	// a Reset. So Reset inside Run always succeeds, and Schedule inside Run needs room for
	// another timer. A task that repeats itself should call Reset.
	ErrFull = errors.New("schedule: engine is full")

	// ErrNilTask is returned by Schedule for a nil Task, and by AfterFunc and Every for a
	// nil func.
	ErrNilTask = errors.New("schedule: nil task")
)

// Task is the work of a timer.
type Task interface {
	// Run is called on the engine's own goroutine when timer t fires. The engine holds no
	// lock. Run must not block, because it delays the other timers of the engine, unless
	// the engine is configured to run tasks on other goroutines. Runs of one timer never
	// overlap. The engine recovers and reports a panic. A Run that calls runtime.Goexit, as
	// FailNow of a test does, has ended like one that returns: the engine and its other
	// timers continue on another goroutine.
	//
	// t.Reset inside Run schedules the task again. Use t rather than the Timer that
	// Schedule returned: Run may begin before the caller has stored that one.
	//
	// Run is never called after the engine's Close has returned. A Task that needs to
	// know about this can implement CloseHandler.
	Run(t Timer)
}

// Scheduler is a timer engine. Its methods are safe for concurrent use, also from inside a
// Task.
type Scheduler interface {
	// Schedule arranges for t.Run to be called once, no earlier than d from now. A d that
	// is not positive means as soon as possible. A d beyond the range of the clock means
	// the end of that range. Schedule returns ErrClosed, ErrFull or ErrNilTask if it does
	// not accept t. It never waits for a Task.
	Schedule(d time.Duration, t Task) (Timer, error)
}

// Timer is the handle of a scheduled Task. It is a small value that may be copied; all
// copies refer to the same timer. Its methods are safe for concurrent use. After the timer
// has ended, Reset and Stop do nothing and return false, however old the handle is. The
// zero Timer behaves in the same way.
type Timer struct {
	engine TimerOwner
	id     uint64
}

// TimerOwner is the side of an engine that its Timers call. Only authors of engines need it.
// An id is chosen by the engine and must never refer to another timer.
type TimerOwner interface {
	// ResetTimer implements [Timer.Reset].
	ResetTimer(id uint64, d time.Duration) bool
	// StopTimer implements [Timer.Stop].
	StopTimer(id uint64) bool
	// AwaitTimer returns as soon as no Run of the timer is in progress.
	AwaitTimer(id uint64)
	// TimerDeadline implements [Timer.Deadline].
	TimerDeadline(id uint64) (time.Time, bool)
}

// NewTimer returns the handle of the timer that e knows as id. It is for authors of
// engines.
func NewTimer(e TimerOwner, id uint64) Timer {
	return Timer{engine: e, id: id}
}

// Reset changes the timer to fire d from now, and reports whether it did. A pending timer
// is moved. A timer that is due but whose Run has not begun is moved, too. If Run is in
// progress, the timer fires again after that Run has returned. In all these cases Reset
// succeeds even if the engine is full.
//
// Reset does nothing and returns false after a Stop, after the engine's Close, and after a
// Run that has returned without a Reset.
func (t Timer) Reset(d time.Duration) bool {
	return t.engine != nil && t.engine.ResetTimer(t.id, d)
}

// Stop ends the timer. It returns true if it prevents a Run, and false if Run has begun or
// the timer has ended before. Stop does not wait for a Run in progress, but after Stop
// that Run cannot reset the timer.
func (t Timer) Stop() bool {
	return t.engine != nil && t.engine.StopTimer(t.id)
}

// Deadline returns the instant at which the next Run of the timer is due, or false if there
// is none. A wheel returns the end of the tick in which the timer fires. The instant can have
// passed if the timer is due and its Run has not begun.
//
// There is no next Run after a Stop, after the engine's Close, and once Run has begun, unless
// Reset was called during that Run.
func (t Timer) Deadline() (time.Time, bool) {
	if t.engine == nil {
		return time.Time{}, false
	}
	return t.engine.TimerDeadline(t.id)
}

// StopAndWait calls Stop, waits until no Run of the timer is in progress, and returns the
// result of Stop. No Run begins afterwards, so the caller may release what Run uses.
//
// StopAndWait must not be called from inside that Run, or with a lock held that Run needs.
// It does not wait for goroutines that Run has started, such as those of AfterFunc and
// Every.
func (t Timer) StopAndWait() bool {
	stopped := t.Stop()
	if t.engine != nil {
		t.engine.AwaitTimer(t.id)
	}
	return stopped
}
