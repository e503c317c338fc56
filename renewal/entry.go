package renewal

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Entry is one lease under a watchdog: the holder's view of it. Only Register and
// Pass make one; the zero Entry must not be used. All methods are safe for concurrent
// use and do no IO. An entry ends once, by Stop, by Pass, by loss, or by the Close of
// the watchdog or of its engine, and never lives again.
type Entry[L any] struct {
	dog *Watchdog[L]

	// The deadline on both clocks, ended once the entry has ended. Written under
	// dog.mu, read without it: a torn read mixes two deadlines that were both
	// confirmed.
	mono, wall atomic.Int64

	// dog.mu guards all below. What a renewal touches stands together: an entry that
	// was last looked at a period ago is in no cache.
	*terms
	timer    schedule.Timer
	at       int64 // the instant, on the monotonic clock, of the next renewal
	failures int32 // renewals in a row that got no answer
	state    state
	list     *list[L]  // while due: the list of its lane that it is in
	prev     *Entry[L] // neighbours in that list
	next     *Entry[L]
	lease    L         // does not change
	older    *Entry[L] // neighbours among all entries of the watchdog
	newer    *Entry[L]
	end      *ending // made when asked for, or at the end
}

// terms are how an entry is renewed. They do not change, and entries of one TTL share
// them.
type terms struct {
	latest instant       // the deadline never passes it
	life   time.Duration // from sending a confirmed request to the deadline
	period time.Duration // from there to the next renewal
}

// state is where an entry stands. Its timer is armed for the next renewal while
// it waits and for the deadline from then on, so that a store that hangs, with
// every slot taken, delays no news.
type state uint8

const (
	waiting  state = iota // for its next renewal
	due                   // in its lane's list, for a slot
	renewing              // in a batch
	over                  // ended: nothing happens any more
)

// ending is what a holder who asks for Done, or an ended entry, needs.
type ending struct {
	err   error // set at the end
	last  error // the last error of the store, kept for the LostError
	done  chan struct{}
	funcs map[*afterFunc]struct{}
}

type afterFunc struct{ f func() }

// The transitions. They are all here, are called with dog.mu held, and end in
// over at most once.

// fire is the timer's Run. A reading before the instant that the timer is armed
// for is not possible with an engine that is never early, but arming it anew
// costs nothing and keeps the lease from being forgotten.
func (e *Entry[L]) fire(now instant) {
	switch {
	case e.state == over:
	case now.reached(e.deadline()):
		e.lose(Expired)
	case e.state != waiting:
		e.arm(now.until(e.deadline()))
	case now.mono < e.at:
		e.arm(e.rest(now))
	default:
		e.arm(now.until(e.deadline()))
		if e.state == waiting { // the engine took it
			e.dog.enqueue(e, now)
		}
	}
}

// taken: the lease goes into a batch. It reports false for one whose deadline has
// come: that is never sent.
func (e *Entry[L]) taken(now instant) bool {
	if now.reached(e.deadline()) {
		e.lose(Expired)
		return false
	}
	e.state = renewing
	return true
}

// settle applies the outcome of a batch sent at the given instant. The clock goes
// first: an answer after the deadline does not revive.
func (e *Entry[L]) settle(outcome Outcome, err error, sent, now instant) {
	switch {
	case e.state != renewing:
	case now.reached(e.deadline()):
		e.note(err)
		e.lose(Expired)
	case outcome == Renewed:
		e.confirmed(sent, now)
		e.wait(e.dog.nextRenewal(sent.mono, e.period), now)
	case outcome == Lost:
		e.note(err)
		e.lose(NotOwned)
	default:
		e.note(err)
		e.failures++
		if limit := e.dog.opts.Failures; limit > 0 && int(e.failures) >= limit {
			e.lose(Failed)
			return
		}
		at := max(now.mono, sent.mono+int64(e.period-gatherOf(e.period)))
		if deadline := e.deadline(); e.failures == 1 && at >= deadline.mono-e.least() {
			at = now.mono + int64(now.until(deadline)/2) // the grant was old: see Register
		}
		e.wait(at, now)
	}
}

// confirm: somebody else has renewed the lease, by a request sent at that instant.
func (e *Entry[L]) confirm(sent, latest, now instant) bool {
	e.expire(now)
	if e.state == over {
		return false
	}
	if latest != e.latest {
		e.terms = &terms{latest: latest, life: e.life, period: e.period}
	}
	e.confirmed(sent, now)
	if e.state == waiting {
		e.wait(e.dog.nextRenewal(sent.mono, e.period), now)
	} else {
		e.arm(now.until(e.deadline()))
	}
	return e.state != over
}

// jumped: the wall clock moved against the monotonic one. A step back must not
// leave more than the monotonic clock does; after a step forward, which may have
// been a suspended host, what is left by the wall clock decides. Then both clocks
// leave the same, so that no later step can undo this one. The next renewal comes
// early, at random, so that all do not come together for ever after.
func (e *Entry[L]) jumped(now instant) {
	if e.state == over {
		return
	}
	deadline := e.deadline().agreed(now.lead())
	e.mono.Store(deadline.mono)
	e.wall.Store(deadline.wall)
	if e.latest.mono != noEnd {
		e.terms = &terms{latest: e.latest.agreed(now.lead()), life: e.life, period: e.period}
	}
	if e.state == waiting && !deadline.reached(e.latest) {
		spread := min(e.period/2, now.until(e.deadline())/2)
		e.at = min(e.at, now.mono+int64(rand.Float64()*float64(spread)))
	}
	e.rearm(now)
}

// rearm: the timer may have been armed by a reading of the clock that was old by
// then, because the process was paused in between.
func (e *Entry[L]) rearm(now instant) {
	switch {
	case e.state == over:
	case now.reached(e.deadline()):
		e.lose(Expired)
	case e.state == waiting:
		e.arm(e.rest(now))
	default:
		e.arm(now.until(e.deadline()))
	}
}

// stop ends the entry by the holder's or the watchdog's will and reports whether
// it was held until now.
func (e *Entry[L]) stop(err error, now instant) bool {
	if e.state == over {
		return false
	}
	if now.reached(e.deadline()) {
		e.lose(Expired)
		return false
	}
	e.finish(err)
	return true
}

// pass: another entry takes the place of this one.
func (e *Entry[L]) pass(lease L, now instant) (*Entry[L], error) {
	e.expire(now)
	if e.state == over {
		return nil, e.end.err
	}
	next := &Entry[L]{dog: e.dog, terms: e.terms, failures: e.failures, lease: lease}
	deadline := e.deadline()
	next.mono.Store(deadline.mono)
	next.wall.Store(deadline.wall)
	at := e.at
	if e.state != waiting { // its answer will be nobody's
		at = now.mono + int64(now.until(deadline)/4)
	}
	if err := e.dog.track(next); err != nil {
		return nil, err
	}
	e.finish(ErrStopped)
	next.wait(at, now)
	if next.state == over {
		return nil, next.end.err
	}
	return next, nil
}

// expire ends the entry if its deadline has passed though no timer has told.
func (e *Entry[L]) expire(now instant) {
	if e.state != over && now.reached(e.deadline()) {
		e.lose(Expired)
	}
}

// lose ends the entry against the holder's will.
func (e *Entry[L]) lose(reason Reason) {
	err := &LostError{Reason: reason}
	if e.end != nil {
		err.Err = e.end.last
	}
	e.finish(err)
	e.dog.reportLoss(e.lease, err)
}

// finish ends the entry.
func (e *Entry[L]) finish(err error) {
	e.timer.Stop()
	if e.state == due {
		e.list.remove(e)
	}
	e.state = over
	e.mono.Store(ended)
	e.wall.Store(ended)
	e.dog.unlink(e)
	end := e.ending()
	end.err = err
	if end.done != nil {
		close(end.done)
	}
	for a := range end.funcs {
		go a.f()
	}
	end.funcs = nil
}

// Helpers of the transitions.

// confirmed moves the deadline as the grant, or a renewal, sent at that instant
// allows. If the clocks moved apart since, the one that leaves less decides, on both.
// A deadline that leaves more already stays: answers may come in another order than
// what they answer was sent.
func (e *Entry[L]) confirmed(sent, now instant) {
	e.failures = 0
	sent = sent.agreed(now.lead())
	life := min(int64(e.life), e.latest.mono-sent.mono, e.latest.wall-sent.wall)
	deadline := instant{sent.mono + life, sent.wall + life}
	if now.until(deadline) > now.until(e.deadline()) {
		e.mono.Store(deadline.mono)
		e.wall.Store(deadline.wall)
	}
}

// wait arms the timer for a renewal at the given instant, or for the deadline if
// that comes first or no renewal could move it.
func (e *Entry[L]) wait(at int64, now instant) {
	deadline := e.deadline()
	if at >= deadline.mono || deadline.reached(e.latest) {
		at = deadline.mono
	}
	e.state = waiting
	e.at = at
	e.arm(e.rest(now))
}

// patience is how long a renewal sent at that instant is waited for: a period. A
// grant that was old may have less left, and the first try takes no more than half
// of it, or there would be no time for a second.
func (e *Entry[L]) patience(sent instant) time.Duration {
	left := sent.until(e.deadline())
	if e.failures > 0 || left > e.period+time.Duration(e.least()) {
		return e.period
	}
	return left / 2
}

// least is how long before the deadline a second try must be sent to be of use.
func (e *Entry[L]) least() int64 { return int64(e.dog.opts.margin(e.life)) }

// rest is how long the timer of a waiting entry has to run.
func (e *Entry[L]) rest(now instant) time.Duration {
	return min(time.Duration(e.at-now.mono), now.until(e.deadline()))
}

// arm arms the timer. An engine that refuses is closed, and with it the watchdog
// could tell the holder nothing in time.
func (e *Entry[L]) arm(d time.Duration) {
	if !e.timer.Reset(d) {
		e.finish(fmt.Errorf("%w: %w", ErrClosed, schedule.ErrClosed))
	}
}

// note keeps the store's last error.
func (e *Entry[L]) note(err error) {
	if err != nil {
		e.ending().last = err
	}
}

func (e *Entry[L]) ending() *ending {
	if e.end == nil {
		e.end = new(ending)
	}
	return e.end
}

func (e *Entry[L]) deadline() instant {
	return instant{e.mono.Load(), e.wall.Load()}
}

// task is an Entry as its own timer's Task; the type keeps Run out of Entry's
// methods.
type task[L any] Entry[L]

func (t *task[L]) Run(schedule.Timer) {
	e := (*Entry[L])(t)
	e.dog.mu.Lock()
	defer e.dog.mu.Unlock()
	e.fire(e.dog.clock.now())
}
