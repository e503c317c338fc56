package schedule

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// AfterFunc calls f in its own goroutine once d has passed, as time.AfterFunc
// does, so f may block. Stopping the timer does not wait for f, nor does closing the
// engine, and a panic of f is not recovered: it ends the program. The errors are
// those of Schedule; a nil Scheduler is one too.
func AfterFunc(s Scheduler, d time.Duration, f func()) (Timer, error) {
	switch {
	case f == nil:
		return Timer{}, ErrNilTask
	case s == nil:
		return Timer{}, errNilScheduler
	}
	return s.Schedule(d, funcTask(f))
}

var errNilScheduler = errors.New("schedule: nil scheduler")

type funcTask func()

func (f funcTask) Run(Timer) { go f() }

// Every calls f in its own goroutine each period, first one period from now,
// until the returned timer is stopped or the engine closed. The calls stand on a
// fixed grid and do not drift. They never overlap: a tick that comes while f
// still runs is skipped, as are those that passed while the process slept. Stopping
// the timer, or closing the engine, does not wait for a call under way, and a panic
// of f is not recovered: it ends the program.
//
// Resetting the timer moves its next call off the grid; the ones after it are
// back on it. A Reset in the very moment in which a call begins may come to
// nothing, for that call arms the timer, too. A period of zero or less is an
// error, so is a nil Scheduler, and so are those of Schedule.
func Every(s Scheduler, period time.Duration, f func()) (Timer, error) {
	switch {
	case f == nil:
		return Timer{}, ErrNilTask
	case s == nil:
		return Timer{}, errNilScheduler
	case period <= 0:
		return Timer{}, fmt.Errorf("schedule: period must be above zero, got %v", period)
	}
	return s.Schedule(period, &periodic{start: time.Now(), period: period, f: f})
}

// periodic re-arms itself on the grid start + n·period.
type periodic struct {
	start   time.Time
	period  time.Duration
	f       func()
	running atomic.Bool
}

func (p *periodic) Run(t Timer) {
	t.Reset(p.period - time.Since(p.start)%p.period)
	if !p.running.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer p.running.Store(false)
		p.f()
	}()
}
