// The engines of this module.

package main

import (
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// ownEngine is an engine of this module. Its tasks run on the engine's goroutine.
type ownEngine struct {
	schedule.Scheduler
	closeEngine func() []schedule.Task
}

func newWheel(s spec) engine[schedule.Timer] {
	w, err := wheel.New(&wheel.Options{Tick: s.Tick, Buckets: s.Buckets})
	must(err)
	return ownEngine{w, w.Close}
}

func newHeap(spec) engine[schedule.Timer] {
	h, err := heapqueue.NewScheduler(nil)
	must(err)
	return ownEngine{h, h.Close}
}

type noopTask struct{}

func (noopTask) Run(schedule.Timer) {}

// fireTask holds the time at which it is due.
type fireTask int64

func (t *fireTask) Run(schedule.Timer) { recordFire(int64(*t)) }

// periodicTask holds its period.
type periodicTask time.Duration

func (p *periodicTask) Run(t schedule.Timer) {
	recordPeriodic()
	t.Reset(time.Duration(*p))
}

type callTask func()

func (f callTask) Run(schedule.Timer) { f() }

func (o ownEngine) schedule(d time.Duration, task schedule.Task) schedule.Timer {
	t, err := o.Schedule(d, task)
	must(err)
	return t
}

func (o ownEngine) noop(d time.Duration) schedule.Timer { return o.schedule(d, noopTask{}) }
func (o ownEngine) stop(t schedule.Timer)               { t.Stop() }
func (o ownEngine) call(d time.Duration, f func())      { o.schedule(d, callTask(f)) }
func (o ownEngine) close()                              { o.closeEngine() }

func (o ownEngine) reset(t schedule.Timer, d time.Duration) schedule.Timer {
	t.Reset(d)
	return t
}

func (o ownEngine) fire(d time.Duration, due int64) {
	t := fireTask(due)
	o.schedule(d, &t)
}

func (o ownEngine) every(period time.Duration) {
	p := periodicTask(period)
	o.schedule(period, &p)
}

// goWheel is the wheel with a goroutine for each callback, as the Go peers have it.
// Such a callback may block.
type goWheel struct{ ownEngine }

func newGoWheel(s spec) engine[schedule.Timer] {
	return goWheel{newWheel(s).(ownEngine)}
}

func (o goWheel) fire(d time.Duration, due int64) {
	_, err := schedule.AfterFunc(o, d, func() { recordFire(due) })
	must(err)
}

func (o goWheel) every(period time.Duration) {
	_, err := schedule.Every(o, period, recordPeriodic)
	must(err)
}
