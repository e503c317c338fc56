package main

import (
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// ours is an engine of this module. Its tasks run on the engine's own goroutine.
type ours struct {
	schedule.Scheduler
	end func() []schedule.Task
}

func newWheel(s spec) engine[schedule.Timer] {
	w, err := wheel.New(&wheel.Options{Tick: s.Tick, Buckets: s.Buckets})
	must(err)
	return ours{w, w.Close}
}

func newHeap(spec) engine[schedule.Timer] {
	h, err := heapqueue.NewScheduler(nil)
	must(err)
	return ours{h, h.Close}
}

type nothing struct{}

func (nothing) Run(schedule.Timer) {}

type arrival int64

func (a *arrival) Run(schedule.Timer) { arrived(int64(*a)) }

type pulse time.Duration

func (p *pulse) Run(t schedule.Timer) {
	beat()
	t.Reset(time.Duration(*p))
}

func (o ours) arm(d time.Duration, task schedule.Task) schedule.Timer {
	t, err := o.Schedule(d, task)
	must(err)
	return t
}

func (o ours) nop(d time.Duration) schedule.Timer { return o.arm(d, nothing{}) }
func (o ours) stop(t schedule.Timer)              { t.Stop() }
func (o ours) close()                             { o.end() }

func (o ours) reset(t schedule.Timer, d time.Duration) schedule.Timer {
	t.Reset(d)
	return t
}

func (o ours) fire(d time.Duration, due int64) {
	a := arrival(due)
	o.arm(d, &a)
}

func (o ours) every(period time.Duration) {
	p := pulse(period)
	o.arm(period, &p)
}

// oursGo is the wheel with a goroutine for each function, as the other Go peers
// have it: a function may block there.
type oursGo struct{ ours }

func newWheelGo(s spec) engine[schedule.Timer] {
	return oursGo{newWheel(s).(ours)}
}

func (o oursGo) fire(d time.Duration, due int64) {
	_, err := schedule.AfterFunc(o, d, func() { arrived(due) })
	must(err)
}

func (o oursGo) every(period time.Duration) {
	_, err := schedule.Every(o, period, beat)
	must(err)
}
