package still

import (
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Engine returns a timer engine whose timers stand still with the process.
func (g *Gate) Engine(s schedule.Scheduler) schedule.Scheduler { return gated{s, g} }

// TickingEngine is Engine for one that is as coarse as tick, and says so.
func (g *Gate) TickingEngine(s schedule.Scheduler, tick time.Duration) schedule.Scheduler {
	return gatedTicking{gated{s, g}, tick}
}

// gated is an engine behind a gate.
type gated struct {
	schedule.Scheduler
	gate *Gate
}

func (g gated) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	return g.Scheduler.Schedule(d, gatedTask{t, g.gate})
}

type gatedTask struct {
	task schedule.Task
	gate *Gate
}

func (t gatedTask) Run(timer schedule.Timer) {
	t.gate.Pass(t.gate.turn())
	t.task.Run(timer)
}

type gatedTicking struct {
	gated
	tick time.Duration
}

func (g gatedTicking) Tick() time.Duration { return g.tick }
