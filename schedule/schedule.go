// Package schedule is the contract between a timer engine and its users: a
// [Scheduler] runs each [Task] once, not before its delay has passed, and hands
// out a [Timer] to move or stop it.
//
// Packages wheel and heapqueue hold the two engines of this module; package
// scheduletest holds the suite that every engine must pass.
package schedule

import (
	"errors"
	"time"
)

var (
	// ErrClosed is returned by Schedule once the engine is closed.
	ErrClosed = errors.New("schedule: engine is closed")

	// ErrFull is returned by Schedule while the engine holds as many timers as
	// it was told to hold at most.
	ErrFull = errors.New("schedule: engine is full")

	// ErrNilTask is returned by Schedule for a nil Task, by AfterFunc and Every
	// for a nil function.
	ErrNilTask = errors.New("schedule: nil task")
)

// Task is what a timer runs.
type Task interface {
	// Run is called on the engine's own goroutine when the timer t fires, with
	// no lock held. It must not block: it delays other timers of the engine for
	// as long as it takes, unless the engine was told to run tasks elsewhere. Run
	// of one timer never overlaps itself. A panic is recovered by the engine and
	// reported.
	//
	// Within Run, t is the timer that fired: t.Reset arms it again. (The handle
	// that Schedule returned is the same timer, but Run may begin before the
	// caller has stored it.)
	Run(t Timer)
}

// Scheduler is a timer engine as its users see it. All methods are safe for
// concurrent use, from inside a Task too.
type Scheduler interface {
	// Schedule arranges for t.Run to be called once, d or a little more from now;
	// a d of zero or less means as soon as possible, and a d beyond the range
	// of the clock means at its end. It returns ErrClosed, ErrFull or ErrNilTask,
	// and then t is not kept. Schedule never waits for a Task.
	Schedule(d time.Duration, t Task) (Timer, error)
}

// Timer is a handle of a scheduled Task. It is a small value, free to copy and
// safe for concurrent use; all copies are the same timer. A handle stays
// harmless for ever: once its timer is done, Reset and Stop do nothing and
// return false. So do those of the zero Timer.
type Timer struct {
	engine Engine
	id     uint64
}

// Engine is the side of a Timer that authors of engines implement; users of
// timers have no need of it. The id is the engine's own and must never come to
// mean another timer.
type Engine interface {
	// ResetTimer does the work of [Timer.Reset].
	ResetTimer(id uint64, d time.Duration) bool
	// StopTimer does the work of [Timer.Stop].
	StopTimer(id uint64) bool
	// AwaitTimer returns as soon as no Run of the timer is in progress.
	AwaitTimer(id uint64)
}

// NewTimer returns the handle of the timer that e knows as id. It is for authors
// of engines.
func NewTimer(e Engine, id uint64) Timer {
	return Timer{engine: e, id: id}
}

// Reset moves the timer to fire d from now in place of the instant it was armed
// for, and reports whether it did. It works while the timer is pending, while it
// is due but its Run has not begun, and while its Run is in progress, from inside
// and from elsewhere: then the timer fires again, once that Run has returned. In
// each of these cases it is never refused for lack of room. It returns false, and
// does nothing, once Run has returned without a Reset, after a Stop, and when the
// engine is closed.
func (t Timer) Reset(d time.Duration) bool {
	return t.engine != nil && t.engine.ResetTimer(t.id, d)
}

// Stop ends the timer. It returns true if Run will not be called for the present
// arming. False means that Run has begun or is over, or was called off before, by
// a Stop or by the engine's Close. Stop does not wait for a Run in progress, but it
// is final: a Reset during that Run is refused from then on.
func (t Timer) Stop() bool {
	return t.engine != nil && t.engine.StopTimer(t.id)
}

// StopAndWait is Stop, and then waits while a Run is in progress: once it has
// returned, no Run of the timer is under way and none will begin, so what Run uses
// can be taken apart. It returns what Stop returned.
//
// It must not be called from inside that Run, which it would wait for, nor with a
// lock held that Run takes. It waits for Run alone, not for a goroutine that Run
// started, as the functions of AfterFunc and Every are.
func (t Timer) StopAndWait() bool {
	stopped := t.Stop()
	if t.engine != nil {
		t.engine.AwaitTimer(t.id)
	}
	return stopped
}
