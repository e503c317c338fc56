// Calls that repeat after a period, and the policies for missed ones.

package schedule

import (
	"fmt"
	"sync"
	"time"
)

// MissedCalls is what becomes of calls that are due while an earlier call is still in
// progress, or while the engine is late. See EveryWith.
type MissedCalls int

const (
	// SkipMissed drops missed calls. Later calls are due at multiples of the period from
	// the start. Every does the same.
	SkipMissed MissedCalls = iota

	// CatchUpMissed makes all missed calls, one after another without a pause, until there
	// are as many calls as periods have passed. If f always takes longer than the period,
	// the calls never catch up.
	CatchUpMissed

	// DelayMissed makes one call as soon as possible and drops the other missed ones. Later
	// calls are due at multiples of the period from that call.
	DelayMissed
)

// minGap is the shortest time between two calls. The goroutine of an engine needs a few
// microseconds for each. If the next call were due by then, that goroutine would never
// sleep, and on a single CPU f would hardly run.
const minGap = 10 * time.Microsecond

// Every calls f in its own goroutine after each period, until the returned timer is stopped
// or the engine is closed. The calls are due at multiples of the period from now, so they do
// not drift. They never overlap: Every skips a call that is due while f is running. It also
// skips calls that were due while the engine was late; EveryWith can make them later. Neither
// Stop of the timer nor Close of the engine waits for f. A panic of f is not recovered.
//
// The monotonic clock stops while the host is suspended, so no call is due meanwhile.
//
// Reset of the timer moves its next call only. Later calls are due at multiples of the
// period again. A Reset at the moment at which a call begins may have no effect, because
// each call resets the timer, too.
//
// Calls are at least 10 µs apart, so that an exact engine can sleep between them. With a
// shorter period Every skips the calls that are due sooner.
//
// Every returns an error if f or s is nil or the period is not positive, and the errors of
// Schedule.
func Every(s Scheduler, period time.Duration, f func()) (Timer, error) {
	return EveryWith(s, period, SkipMissed, f)
}

// EveryWith is like Every and applies a policy to missed calls. With each policy the calls
// never overlap, and missed calls are given up when the timer is stopped or the engine is
// closed.
//
// With CatchUpMissed and DelayMissed, a period below 10 µs counts as 10 µs, and a Reset of
// the timer while f is running has no effect if a call was missed. With CatchUpMissed, a
// call that Reset has moved to a later time counts as missed if another one was due
// meanwhile.
//
// EveryWith returns an error for an unknown policy, too.
func EveryWith(s Scheduler, period time.Duration, missed MissedCalls, f func()) (Timer, error) {
	switch {
	case f == nil:
		return Timer{}, ErrNilTask
	case isNil(s):
		return Timer{}, errNilScheduler
	case period <= 0:
		return Timer{}, fmt.Errorf("schedule: period must be positive, got %v", period)
	case missed < SkipMissed || missed > DelayMissed:
		return Timer{}, fmt.Errorf("schedule: unknown policy MissedCalls(%d)", missed)
	}
	if missed != SkipMissed {
		period = max(period, minGap)
	}
	return s.Schedule(period, &periodic{period: period, missed: missed, f: f, start: time.Now()})
}

// periodic is the task of Every. Its calls are due at start + n·period.
type periodic struct {
	period time.Duration
	missed MissedCalls
	f      func()

	mu      sync.Mutex // guards the fields below
	start   time.Time
	made    int64 // n of the latest call that was made or dropped; unused with SkipMissed
	running bool  // a goroutine makes calls
}

func (p *periodic) Run(t Timer) {
	next, ok := p.begin()
	t.Reset(next)
	if ok {
		go p.call(t)
	}
}

// call makes the call that is due and the missed ones after it.
func (p *periodic) call(t Timer) {
	returned := false
	defer func() {
		if !returned { // f has called runtime.Goexit
			p.end()
		}
	}()
	for again := true; again; {
		p.f()
		next, missed := p.takeMissed()
		again = missed && t.Reset(next) // Reset fails after Stop and after Close
	}
	returned = true
}

// begin takes the call that is due, unless another one is in progress. It returns the time
// to the next call.
func (p *periodic) begin() (next time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return p.next(), false
	}
	p.running = true
	p.take(p.due()-p.made > 1)
	return p.next(), true
}

// takeMissed takes a call that was due while the last one was in progress. If there is none
// that the policy wants, it lets the next Run begin a call and returns false.
func (p *periodic) takeMissed() (next time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missed == SkipMissed || p.due() <= p.made {
		p.running = false
		return 0, false
	}
	p.take(true)
	return p.next(), true
}

// take counts a call that begins now; late means that another call was missed.
func (p *periodic) take(late bool) {
	switch {
	case p.missed == CatchUpMissed:
		p.made = min(p.made+1, p.due())
	case p.missed == DelayMissed && late:
		p.start, p.made = time.Now(), 0
	case p.missed == DelayMissed:
		p.made = p.due()
	}
}

func (p *periodic) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

// due returns n of the latest call that is due. It is called with mu held.
func (p *periodic) due() int64 { return int64(time.Since(p.start) / p.period) }

// next returns the time from now to the first call that is at least minGap away. It is
// called with mu held.
func (p *periodic) next() time.Duration {
	d := p.period - time.Since(p.start)%p.period
	if d < minGap {
		d += (minGap - d + p.period - 1) / p.period * p.period
	}
	return d
}
