// An entry: its states and all transitions between them.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Entry is one lease under a watchdog. Register and Replace return entries, and the zero
// Entry must not be used. All methods are safe for concurrent use and do no IO. An entry
// ends once and stays ended: by Stop, by Replace, by a loss, or when the watchdog or
// its engine is closed.
type Entry[L any] struct {
	w *Watchdog[L]

	// The deadline on both clocks, or distantPast once the entry has ended. Both are
	// written with w.mu held and read without it. A torn read mixes two
	// deadlines that were both confirmed.
	mono, wall atomic.Int64

	// w.mu guards all fields below. The fields that a renewal uses are adjacent,
	// because an entry that was last used a period ago is not in the cache.
	*timing
	timer    schedule.Timer
	renewAt  int64    // when the next renewal is due, on the monotonic clock
	lane     *lane[L] // of the latest renewal, or nil
	failures int16    // unanswered renewals in a row, at most 1/Options.Fraction
	epoch    uint16   // the last pass over all entries that has visited this one
	state    state
	stepped  bool      // a step of the wall clock has moved the deadline since the last renewal
	expPrev  *Entry[L] // neighbours in its expiry bucket
	expNext  *Entry[L]
	list     *list[L]  // while due: the list of its lane that it is in
	prev     *Entry[L] // neighbours in that list
	next     *Entry[L]
	lease    L           // only Update changes it
	end      *completion // made on demand, or at the end
}

// state is the state of an entry.
//
//	from           event                                     to         timer set to
//	-              Register, Replace                         waiting    renewal
//	waiting        the renewal is due: fire                  due        deadline
//	due            a worker takes it: startRenewal           renewing   deadline
//	renewing       Renewed, or a tolerated failure:          waiting    renewal
//	               applyOutcome
//	waiting        renewed by another request:               waiting    renewal
//	               Update, or clocks apart
//	due, renewing  the same                                  same       deadline
//	any but ended  an early renewal is not denied:           same       unchanged
//	               applyEarly
//	any but ended  the deadline, Lost by any request, too    ended      -
//	               many failures, Stop, Replace, Close,
//	               engine closed
//
// The timer of a due entry is set to the deadline before anything is sent, so a store
// that hangs with all workers busy does not delay the notice of a loss.
type state uint8

const (
	waiting  state = iota // until its next renewal is due
	due                   // in a list of its lane, until a worker takes it
	renewing              // in the batch of a worker
	ended                 // final
)

// completion is what an ended entry, or a holder who has asked for Done, needs.
type completion struct {
	err   error     // set at the end
	lost  LostError // the err of a loss; its Err is the last error of the store so far
	done  chan struct{}
	funcs map[*afterFunc]struct{}

	answer   Outcome // of the store that has ended the lease
	attempts int     // renewals that have failed since the last confirmed one
	firstDue int64   // when the first of them was due, on the monotonic clock
}

type afterFunc struct{ f func() }

// The transitions. All are in this file and are called with w.mu held.

// fire runs when the timer fires. An engine is never early, but an early call only sets
// the timer again.
func (e *Entry[L]) fire(now instant) {
	switch {
	case e.state == ended:
	case now.reached(e.deadline()):
		e.lose(ReasonExpired)
	case e.state != waiting:
		e.arm(now.until(e.deadline()))
	case now.mono < e.renewAt:
		e.arm(e.timerDelay(now))
	default:
		e.arm(now.until(e.deadline()))
		if e.state == waiting { // the engine is not closed
			e.lane = e.w.laneOf(e) // which may panic
			e.lane.enqueue(e, e.attemptTimeout(now))
			e.w.startWorker(e.lane, lingerFor(e.period))
			e.state = due
		}
		if late := time.Duration(now.mono - e.renewAt); late > e.margin {
			e.w.monitor.delays.add(e.renewAt, now.mono, e.w.monitor.tolerance)
			e.w.reportLate(late, now)
		}
	}
}

// startRenewal moves a due entry into a batch. It returns false if the deadline has
// passed: such a lease is never sent.
func (e *Entry[L]) startRenewal(now instant) bool {
	if now.reached(e.deadline()) {
		e.lose(ReasonExpired)
		return false
	}
	e.state = renewing
	return true
}

// applyOutcome applies the outcome of a batch that was sent at the given instant, with a TTL
// of the given validity. The deadline comes first: a late answer does not revive an entry.
func (e *Entry[L]) applyOutcome(outcome Outcome, err error, sent instant, validity time.Duration, now instant) {
	switch {
	case e.state != renewing:
	case now.reached(e.deadline()):
		e.recordErr(err)
		e.lose(ReasonExpired)
	case outcome == Renewed:
		e.extendDeadline(sent, validity, now)
		e.scheduleRenewal(e.w.opts.renewalAt(sent.mono, e.period, 0), now)
	case outcome.IsLost():
		e.recordErr(err)
		e.lose(ReasonNotOwned)
	case e.w.closed: // Close has cancelled the call and is about to end the entry
	default:
		e.recordErr(err)
		e.noteAttempt()
		e.failures++
		if limit := e.w.opts.Failures; limit > 0 && int(e.failures) >= limit {
			e.lose(ReasonFailed)
			return
		}
		e.scheduleRenewal(e.retryAt(sent, now), now)
	}
}

// applyEarly applies the outcome of an early renewal. Only a confirmation or a denial changes anything. The next renewal stays
// where it is, so that leases which are verified together are not renewed together later. The timer need not move: it
// fires for the next renewal, or at a deadline that has moved since.
func (e *Entry[L]) applyEarly(outcome Outcome, err error, sent instant, validity time.Duration, now instant) {
	if e.expireIfPast(now); e.state == ended {
		return
	}
	if outcome.IsLost() {
		e.recordErr(err)
		e.lose(ReasonNotOwned)
	}
	if outcome == Renewed {
		e.extendDeadline(sent, validity, now)
	}
}

// renewed applies a renewal by another request, sent at that instant with that TTL.
func (e *Entry[L]) renewed(ttl time.Duration, sent, maxDeadline, now instant) {
	e.expireIfPast(now)
	if e.state == ended {
		return
	}
	if ttl != e.ttl || maxDeadline != e.maxDeadline {
		e.timing = e.w.timingFor(ttl, maxDeadline)
		e.w.monitor.tolerance = min(e.w.monitor.tolerance, e.margin)
	}
	e.extendDeadline(sent, e.validity, now)
	if e.state == waiting {
		e.scheduleRenewal(e.w.opts.renewalAt(sent.mono, e.period, 0), now)
	} else {
		e.arm(now.until(e.deadline()))
	}
}

// clockStepped adapts the entry after the wall clock has moved against the monotonic
// clock. After a step back, the monotonic clock decides. After a step forward,
// which may have been a suspended host, the wall clock decides. Afterwards both clocks
// have the same time left, so no later step can undo this one. The next renewal comes early.
func (e *Entry[L]) clockStepped(now instant) {
	if e.state == ended {
		return
	}
	deadline := e.deadline().tighter(now.clockOffset())
	e.stepped = e.stepped || e.mono.Load()-deadline.mono > int64(e.margin)
	e.setDeadline(deadline)
	if e.maxDeadline.mono != distantFuture {
		t := *e.timing // others share it
		t.maxDeadline = e.maxDeadline.tighter(now.clockOffset())
		e.timing = &t
	}
	if e.state == waiting && !deadline.reached(e.maxDeadline) {
		e.renewAt = min(e.renewAt, now.mono+int64(steppedDelay(e.period, now.until(e.deadline()))))
	}
	e.rearm(now)
}

// rearm sets the timer again after a pause of the process. The reading of the clock by
// which the timer was set may have been old by then.
func (e *Entry[L]) rearm(now instant) {
	switch {
	case e.state == ended:
	case now.reached(e.deadline()):
		e.lose(ReasonExpired)
	case e.state == waiting:
		e.arm(e.timerDelay(now))
	default:
		e.arm(now.until(e.deadline()))
	}
}

// stop ends the entry for the holder or the watchdog. It reports whether the lease was
// held until now.
func (e *Entry[L]) stop(err error, now instant) bool {
	e.expireIfPast(now)
	if e.state == ended {
		return false
	}
	e.finish(err)
	return true
}

// replace puts a new entry for the given lease in the place of this one.
func (e *Entry[L]) replace(lease L, ttl time.Duration, now instant) (*Entry[L], error) {
	e.expireIfPast(now)
	if e.state == ended {
		return nil, e.end.err
	}
	if e.w.closed {
		return nil, ErrClosed
	}
	next := &Entry[L]{w: e.w, timing: e.timing, failures: e.failures, lease: lease}
	if ttl != e.ttl { // Update has changed the TTL since the caller made the lease
		next.timing = e.w.timingFor(ttl, e.maxDeadline)
	}
	deadline := e.deadline()
	next.setDeadline(deadline)
	at := e.renewAt
	if e.state != waiting { // the answer of the renewal under way will be dropped
		at = now.mono + int64(oldGrantDelay(now.until(deadline)))
	}
	if err := e.w.track(next, at, now); err != nil {
		return nil, err
	}
	e.finish(ErrStopped)
	return next, nil
}

// expireIfPast ends the entry if its deadline has passed before its timer has fired.
func (e *Entry[L]) expireIfPast(now instant) {
	if e.state != ended && now.reached(e.deadline()) {
		e.lose(ReasonExpired)
	}
}

// lose ends the entry because of a loss.
func (e *Entry[L]) lose(reason Reason) {
	if reason == ReasonExpired && e.deadline().reached(e.maxDeadline) {
		reason = ReasonLimitReached
	}
	err, now := &e.completion().lost, e.w.clock.now()
	err.Reason = reason
	if reason != ReasonNotOwned {
		err.Left = now.until(e.deadline()) + e.margin
	}
	if reason != ReasonLimitReached {
		err.evidence = e.w.collect(e, reason, now)
	}
	e.finish(err)
	e.w.reportLoss(e, err)
}

// engineClosed ends the entry because no timer will fire any more.
func (e *Entry[L]) engineClosed(now instant) {
	if e.stop(errEngineClosed, now) {
		e.w.keepUnreleased(e)
	}
}

// finish ends the entry.
func (e *Entry[L]) finish(err error) {
	e.timer.Stop()
	if e.state == due {
		e.list.remove(e)
	}
	e.state = ended
	e.mono.Store(distantPast)
	e.wall.Store(distantPast)
	e.w.monitor.expiries.remove(e)
	e.w.held--
	end := e.completion()
	end.err = err
	if end.done != nil {
		close(end.done)
	}
	for a := range end.funcs {
		e.w.toStart = append(e.w.toStart, a.f)
	}
	end.funcs = nil
}

// unlock releases mu and starts the functions of entries that ended while it was held.
func (w *Watchdog[L]) unlock() {
	toStart := w.toStart
	w.toStart = nil
	w.mu.Unlock()
	for _, f := range toStart {
		go f()
	}
}

// scheduleRenewal sets the timer to a renewal at the given instant; see waitUntil.
func (e *Entry[L]) scheduleRenewal(at int64, now instant) {
	e.waitUntil(at)
	e.arm(e.timerDelay(now))
}

// waitUntil makes an entry wait for a renewal at the given instant, or for the deadline if that comes first or no
// renewal could move it.
func (e *Entry[L]) waitUntil(at int64) {
	deadline := e.deadline()
	if at >= deadline.mono || deadline.reached(e.maxDeadline) {
		at = deadline.mono
	}
	e.state = waiting
	e.renewAt = at
}

// arm sets the timer. Only a closed engine refuses.
func (e *Entry[L]) arm(d time.Duration) {
	if !e.timer.Reset(d) {
		e.engineClosed(e.w.clock.now())
	}
}

// extendDeadline sets the deadline that a grant or renewal permits which was sent at that
// instant with a TTL of that validity. If the clocks have moved apart since, the one with
// less time left decides. It never moves the deadline back: replies can arrive out of order,
// and no renewal shortens a lease on the store.
func (e *Entry[L]) extendDeadline(sent instant, validity time.Duration, now instant) {
	e.failures = 0
	if e.end != nil {
		e.end.lost.Err = nil // it is of a renewal before this one
	}
	sent = sent.tighter(now.clockOffset())
	left := min(int64(validity), e.maxDeadline.mono-sent.mono, e.maxDeadline.wall-sent.wall)
	deadline := instant{sent.mono + left, sent.wall + left}
	if now.until(deadline) > now.until(e.deadline()) {
		e.setDeadline(deadline)
		e.stepped = false
	}
}

// setDeadline sets the deadline. An entry that the pass under way has not visited stays
// in its bucket, where the pass will find it.
func (e *Entry[L]) setDeadline(deadline instant) {
	e.mono.Store(deadline.mono)
	e.wall.Store(deadline.wall)
	if m := &e.w.monitor; e.expNext != nil && e.epoch == m.epoch {
		m.expiries.remove(e)
		m.expiries.add(e)
	}
}

// recordErr records the store's last error. An error of the context of the renewal must not
// look like one of the context of the holder.
func (e *Entry[L]) recordErr(err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		err = callError{err}
	}
	e.completion().lost.Err = err
}

func (e *Entry[L]) completion() *completion {
	if e.end == nil {
		e.end = new(completion)
	}
	return e.end
}

func (e *Entry[L]) deadline() instant {
	return instant{e.mono.Load(), e.wall.Load()}
}

// task is an Entry as the Task of its timer. A type of its own keeps Run and
// EngineClosed out of Entry's methods.
type task[L any] Entry[L]

func (t *task[L]) Run(schedule.Timer) {
	e := (*Entry[L])(t)
	e.w.mu.Lock()
	defer e.w.unlock()
	e.fire(e.w.clock.now())
}

// EngineClosed implements [schedule.CloseHandler].
func (t *task[L]) EngineClosed() {
	e := (*Entry[L])(t)
	e.w.mu.Lock()
	defer e.w.unlock()
	e.engineClosed(e.w.clock.now())
}

var errEngineClosed = fmt.Errorf("%w: %w", ErrClosed, schedule.ErrClosed)

// Lease returns the lease that was passed to Register or Replace, as Update has changed it.
func (e *Entry[L]) Lease() L {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.lease
}

// Stop ends the renewals. Err then returns the cause, or ErrStopped if that is nil. Stop returns
// the lease, and whether it was held until now; otherwise the entry had ended before. It does not wait
// for a renewal that is under way. No later batch contains the lease, and a late answer of the
// store has no effect.
func (e *Entry[L]) Stop(cause error) (lease L, held bool) {
	if cause == nil {
		cause = ErrStopped
	}
	e.w.mu.Lock()
	defer e.w.unlock()
	held = e.stop(cause, e.w.clock.now())
	return e.lease, held
}

// Update records that a request of the caller has renewed the lease, for the TTL of the grant; a TTL
// of 0 means that of the lease. Grant.Sent is the time before that request; a time in the future counts as now.
// Update moves the deadline and the next renewal, as a renewal by the watchdog does, and never moves
// the deadline back, because no renewal shortens a lease on the store. A renewal that is under way counts with the TTL
// that it was sent with. Unless it is zero, Grant.Until replaces that of Register.
//
// With the zero Grant there was no request, and only the lease changes.
//
// All later renewals send the lease that change returns, which must have that TTL; nil keeps the lease. Update
// calls change with a mutex held. So change must only compute its result from its
// argument. On an error nothing has changed. The error is that of the entry if it has
// ended, or names the field of the grant that is wrong.
func (e *Entry[L]) Update(g Grant, change func(L) L) error {
	e.w.mu.Lock()
	defer e.w.unlock()
	none := g == Grant{}
	if g.TTL == 0 {
		g.TTL = e.ttl
	} else if err := e.w.checkTerms(g); err != nil {
		return err
	}
	age := min(max(ageOf(g.Sent), 0), e.w.opts.validity(g.TTL)) // an older request moves nothing, and could overflow
	now, maxDeadline := e.w.clock.now(), e.maxDeadline
	if !g.Until.IsZero() {
		maxDeadline = e.w.clock.endOf(g.Until)
	}
	if none {
		e.expireIfPast(now)
	} else {
		e.renewed(g.TTL, instant{now.mono - int64(age), now.wall - int64(age)}, maxDeadline, now)
	}
	if e.state == ended {
		return e.end.err
	}
	if change != nil {
		e.lease = change(e.lease)
	}
	return nil
}

// ReportLost records that the store has denied the ownership in the answer to a
// request of the caller. The entry ends with a *LostError whose Err is the given error, and
// its holder is notified, as after a renewal by the watchdog. ReportLost returns false if the
// entry has ended before.
func (e *Entry[L]) ReportLost(err error) bool {
	e.w.mu.Lock()
	defer e.w.unlock()
	now := e.w.clock.now()
	e.expireIfPast(now)
	if e.state == ended {
		return false
	}
	e.recordErr(err)
	e.lose(ReasonNotOwned)
	e.w.noteDenials(e.w.laneOf(e), 1, 0, false, now)
	return true
}

// Replace ends the entry, as Stop does, and returns an entry for the given lease with
// the same deadline and the same next renewal. The argument ttl is the TTL of that lease. If
// a renewal is under way, the next one comes after a quarter of the remaining time. The
// change is atomic: at each moment exactly one of the two entries is held. On an error
// nothing has changed. The error is that of the entry if it has ended, or that of an engine
// that is full or closed.
func (e *Entry[L]) Replace(lease L, ttl time.Duration) (*Entry[L], error) {
	e.w.mu.Lock()
	defer e.w.unlock()
	return e.replace(lease, ttl, e.w.clock.now())
}

// Valid reports whether the lease can be relied on at this moment. It reads the clocks,
// so it is correct even before a timer has run, for example after a pause of the process. It
// takes no mutex, does not allocate, and costs as much as time.Now. Valid ends
// nothing: call Err for the final answer.
func (e *Entry[L]) Valid() bool {
	return !e.w.clock.now().reached(e.deadline())
}

// Deadline returns the time until which the lease can be relied on unless a renewal
// extends it. It returns the zero Time once the entry has ended.
func (e *Entry[L]) Deadline() time.Time {
	deadline := e.deadline()
	if deadline.mono == distantPast || deadline.wall == distantPast {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(e.w.clock.at(now).until(deadline))
}

// Err returns nil while the lease is held, and then why it is not: a *LostError,
// the cause of Stop, or ErrClosed. It reads the clocks: past the deadline the entry ends,
// even if no timer has run. Once Err returns an error, it always returns the same one.
func (e *Entry[L]) Err() error {
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	if e.state != ended {
		return nil
	}
	return e.end.err
}

// Done returns a channel that is closed when the entry ends for any reason. The channel
// is a notification, not a proof: after a pause of the process, a goroutine may
// run before the channel is closed. Call Valid or Err right before a step that needs the
// lease.
func (e *Entry[L]) Done() <-chan struct{} {
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	end := e.completion()
	if end.done == nil {
		end.done = make(chan struct{})
		if e.state == ended {
			close(end.done)
		}
	}
	return end.done
}

// AfterFunc calls f in its own goroutine when the entry ends, or at once if it has ended.
// Several functions start in no particular order. A panic of f is not recovered. The
// function stop cancels the call. It returns false if f was started or
// cancelled before. AfterFunc panics if f is nil.
func (e *Entry[L]) AfterFunc(f func()) (stop func() bool) {
	if f == nil {
		panic("renewal: AfterFunc of a nil function")
	}
	e.w.mu.Lock()
	defer e.w.unlock()
	e.expireIfPast(e.w.clock.now())
	if e.state == ended {
		e.w.toStart = append(e.w.toStart, f)
		return func() bool { return false }
	}
	end, a := e.completion(), &afterFunc{f}
	if end.funcs == nil {
		end.funcs = make(map[*afterFunc]struct{})
	}
	end.funcs[a] = struct{}{}
	return func() bool {
		e.w.mu.Lock()
		defer e.w.unlock()
		_, pending := end.funcs[a]
		delete(end.funcs, a)
		if len(end.funcs) == 0 {
			end.funcs = nil // a map keeps the memory of deleted keys
		}
		return pending
	}
}
