// A timer engine whose tasks are paused with their process.

package simproc

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/schedule"
)

// Engine returns a timer engine whose tasks are paused with the process.
func (p *Pauser) Engine(s schedule.Scheduler) schedule.Scheduler { return pausedEngine{s, p} }

// TickingEngine is Engine for an engine with a tick.
func (p *Pauser) TickingEngine(s schedule.Scheduler, tick time.Duration) schedule.Scheduler {
	return tickingEngine{pausedEngine{s, p}, tick}
}

var _ seam.PausableEngine = pausedEngine{}

type pausedEngine struct {
	schedule.Scheduler
	pauser *Pauser
}

func (e pausedEngine) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	return e.Scheduler.Schedule(d, pausedTask{t, e.pauser})
}

// AwaitRunning implements [seam.PausableEngine].
func (e pausedEngine) AwaitRunning() { e.pauser.Await(simrand.Mix(e.pauser.engineCaller(), 1)) }

type pausedTask struct {
	task   schedule.Task
	pauser *Pauser
}

func (t pausedTask) Run(timer schedule.Timer) {
	t.pauser.Await(t.pauser.engineCaller())
	t.task.Run(timer)
}

// EngineClosed notifies the task that the engine was closed, if the task implements this
// method.
func (t pausedTask) EngineClosed() {
	if task, ok := t.task.(interface{ EngineClosed() }); ok {
		task.EngineClosed()
	}
}

type tickingEngine struct {
	pausedEngine
	tick time.Duration
}

func (e tickingEngine) Tick() time.Duration { return e.tick }
