// The peers in Go: package time and the timer libraries of other authors.

package main

import (
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
)

func noop() {}

// std is package time. The runtime starts a goroutine for each function.
type std struct{}

func newStd(spec) engine[*time.Timer] { return std{} }

func (std) noop(d time.Duration) *time.Timer { return time.AfterFunc(d, noop) }
func (std) stop(t *time.Timer)               { t.Stop() }
func (std) call(d time.Duration, f func())   { time.AfterFunc(d, f) }
func (std) close()                           {}

func (std) reset(t *time.Timer, d time.Duration) *time.Timer {
	t.Reset(d)
	return t
}

func (std) fire(d time.Duration, due int64) {
	time.AfterFunc(d, func() { recordFire(due) })
}

func (std) every(period time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(forever, func() {
		recordPeriodic()
		t.Reset(period)
	})
	t.Reset(period)
}

// antlabsWheel has a fixed tick of 10 ms, periodic timers, and starts a goroutine for
// each function. The benchmark does not use its Reset, because Reset deadlocks if
// the timer stays in its bucket.
type antlabsWheel struct{ antlabs.Timer }

func newAntlabs(spec) engine[antlabs.TimeNoder] {
	t := antlabs.NewTimer()
	go t.Run()
	return antlabsWheel{t}
}

func (a antlabsWheel) noop(d time.Duration) antlabs.TimeNoder { return a.AfterFunc(d, noop) }
func (a antlabsWheel) stop(t antlabs.TimeNoder)               { t.Stop() }
func (a antlabsWheel) call(d time.Duration, f func())         { a.AfterFunc(d, f) }
func (a antlabsWheel) every(period time.Duration)             { a.ScheduleFunc(period, recordPeriodic) }
func (a antlabsWheel) close()                                 { a.Stop() }

func (a antlabsWheel) reset(t antlabs.TimeNoder, d time.Duration) antlabs.TimeNoder {
	t.Stop()
	return a.noop(d)
}

func (a antlabsWheel) fire(d time.Duration, due int64) {
	a.AfterFunc(d, func() { recordFire(due) })
}

// russellLuo has periodic timers and no Reset. It starts a goroutine for each
// function.
type russellLuo struct{ *timingwheel.TimingWheel }

func newRussellLuo(s spec) engine[*timingwheel.Timer] {
	w := timingwheel.NewTimingWheel(s.Tick, int64(s.Buckets))
	w.Start()
	return russellLuo{w}
}

func (r russellLuo) noop(d time.Duration) *timingwheel.Timer { return r.AfterFunc(d, noop) }
func (r russellLuo) stop(t *timingwheel.Timer)               { t.Stop() }
func (r russellLuo) call(d time.Duration, f func())          { r.AfterFunc(d, f) }
func (r russellLuo) close()                                  { r.Stop() }

func (r russellLuo) reset(t *timingwheel.Timer, d time.Duration) *timingwheel.Timer {
	t.Stop()
	return r.noop(d)
}

func (r russellLuo) fire(d time.Duration, due int64) {
	r.AfterFunc(d, func() { recordFire(due) })
}

func (r russellLuo) every(period time.Duration) {
	r.ScheduleFunc(fixedPeriod(period), recordPeriodic)
}

type fixedPeriod time.Duration

func (p fixedPeriod) Next(t time.Time) time.Time { return t.Add(time.Duration(p)) }
