package main

import (
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
	rfyiamcool "github.com/rfyiamcool/go-timewheel"
)

func nop() {}

// std is package time. The runtime gives each function a goroutine.
type std struct{}

func newStd(spec) engine[*time.Timer] { return std{} }

func (std) nop(d time.Duration) *time.Timer { return time.AfterFunc(d, nop) }
func (std) stop(t *time.Timer)              { t.Stop() }
func (std) close()                          {}

func (std) reset(t *time.Timer, d time.Duration) *time.Timer {
	t.Reset(d)
	return t
}

func (std) fire(d time.Duration, due int64) {
	time.AfterFunc(d, func() { arrived(due) })
}

func (std) every(period time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(forever, func() {
		beat()
		t.Reset(period)
	})
	t.Reset(period)
}

// antlabsWheel has a fixed tick of 10 ms, a goroutine per function, and periodic
// timers of its own. Its Reset cannot be used: it waits for itself for ever if the
// timer's new bucket is that of before.
type antlabsWheel struct{ antlabs.Timer }

func newAntlabs(spec) engine[antlabs.TimeNoder] {
	t := antlabs.NewTimer()
	go t.Run()
	return antlabsWheel{t}
}

func (a antlabsWheel) nop(d time.Duration) antlabs.TimeNoder { return a.AfterFunc(d, nop) }
func (a antlabsWheel) stop(t antlabs.TimeNoder)              { t.Stop() }
func (a antlabsWheel) every(period time.Duration)            { a.ScheduleFunc(period, beat) }
func (a antlabsWheel) close()                                { a.Stop() }

func (a antlabsWheel) reset(t antlabs.TimeNoder, d time.Duration) antlabs.TimeNoder {
	t.Stop()
	return a.nop(d)
}

func (a antlabsWheel) fire(d time.Duration, due int64) {
	a.AfterFunc(d, func() { arrived(due) })
}

// russellLuo has a goroutine per function, no Reset, and periodic timers of its
// own.
type russellLuo struct{ *timingwheel.TimingWheel }

func newRussellLuo(s spec) engine[*timingwheel.Timer] {
	w := timingwheel.NewTimingWheel(s.Tick, int64(s.Buckets))
	w.Start()
	return russellLuo{w}
}

func (r russellLuo) nop(d time.Duration) *timingwheel.Timer { return r.AfterFunc(d, nop) }
func (r russellLuo) stop(t *timingwheel.Timer)              { t.Stop() }
func (r russellLuo) close()                                 { r.Stop() }

func (r russellLuo) reset(t *timingwheel.Timer, d time.Duration) *timingwheel.Timer {
	t.Stop()
	return r.nop(d)
}

func (r russellLuo) fire(d time.Duration, due int64) {
	r.AfterFunc(d, func() { arrived(due) })
}

func (r russellLuo) every(period time.Duration) { r.ScheduleFunc(grid(period), beat) }

type grid time.Duration

func (g grid) Next(t time.Time) time.Time { return t.Add(time.Duration(g)) }

// rfyiamcoolWheel has a goroutine per function, no Reset of a Task, and periodic
// tasks of its own.
type rfyiamcoolWheel struct{ *rfyiamcool.TimeWheel }

// The package starts a wheel of its own when it is imported, in the processes of
// all peers; it would wake them once a second.
func init() { rfyiamcool.DefaultTimeWheel.Stop() }

func newRfyiamcool(s spec) engine[*rfyiamcool.Task] {
	w, err := rfyiamcool.NewTimeWheel(s.Tick, s.Buckets)
	must(err)
	w.Start()
	return rfyiamcoolWheel{w}
}

func (r rfyiamcoolWheel) nop(d time.Duration) *rfyiamcool.Task { return r.Add(d, nop) }
func (r rfyiamcoolWheel) stop(t *rfyiamcool.Task)              { must(r.Remove(t)) }
func (r rfyiamcoolWheel) every(period time.Duration)           { r.AddCron(period, beat) }
func (r rfyiamcoolWheel) close()                               { r.Stop() }

func (r rfyiamcoolWheel) reset(t *rfyiamcool.Task, d time.Duration) *rfyiamcool.Task {
	r.stop(t)
	return r.nop(d)
}

func (r rfyiamcoolWheel) fire(d time.Duration, due int64) {
	r.Add(d, func() { arrived(due) })
}
