// Every Lock and TryLock: its checks, its tries and its end.

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// acquire serves every Lock and TryLock of a lock of one key. With onlyChecks it returns after the checks.
func (c *Client) acquire(ctx context.Context, kind Kind, r driver.Request, wait bool, o *observation) (*Held, error) {
	if !c.ok() {
		return nil, errZeroLock
	}
	err := checkKey(r.Key)
	switch {
	case err != nil:
	case c.wrong != nil:
		return nil, c.wrong
	case c.terms.MinHold > 0, c.terms.StateTTL > 0, c.terms.Yields:
		err = c.checkMode(c.terms, r.Mode)
	}
	switch {
	case err != nil:
	case ctx == nil:
		err = basic.ErrNilContext
	case !c.waitsForItself(ctx, r):
	case r.Mode == driver.Exclusive:
		err = fmt.Errorf("%w; use a Reentrant", ErrHeldByContext)
	default:
		err = ErrHeldByContext
	}
	switch {
	case err != nil:
		return nil, failed("", r.Key, err)
	case o == onlyChecks:
		return nil, nil
	case o == nil && c.hooks != nil:
		o = c.observe(kind)
	}
	if o == nil || o.isMulti {
		return c.acquireLease(ctx, r, wait, o)
	}
	return o.call(ctx, r.Key, func(ctx context.Context) (*Held, error) { return c.acquireLease(ctx, r, wait, o) })
}

// acquisition is one Lock or TryLock. All its tries have the same owner, except after a Wait,
// so that a try recovers the grant of an earlier try whose answer was lost.
type acquisition struct {
	caller   context.Context
	ctx      context.Context // of its calls of the store; ends with caller and with the client
	client   *Client
	request  driver.Request
	wait     bool         // it is a Lock
	canWait  bool         // it is one of a store that can wait
	observed *observation // nil without hooks
	local    localCall

	remains remains       // what the store may have of the owner
	taken   atomic.Bool   // the lock was taken by the latest answer; counted by the local queue
	late    bool          // the latest answer was a grant whose lease was over
	took    time.Duration // how long the latest answer to an Acquire took
}

// remains is what a store may have of an owner that gives up.
type remains uint8

const (
	nothing   remains = iota
	something         // a lock or a place in a queue
	anything          // the same, also later, because a request may still be executed
)

// acquireLease asks the store, once the local queue lets a Lock do that. If it fails or panics, it releases
// in the background what the store may have granted.
func (c *Client) acquireLease(ctx context.Context, r driver.Request, wait bool, o *observation) (*Held, error) {
	if ctx.Err() != nil {
		return nil, failed("", r.Key, c.verdict(ctx, nil, true))
	}
	if !c.gate.Enter() {
		return nil, ErrClosed
	}
	defer c.gate.Leave()
	call, stop := c.whileOpen(ctx)
	defer stop()
	a := &acquisition{caller: ctx, ctx: call, client: c, wait: wait, observed: o}
	if wait {
		if c.warnAfter >= 0 && !c.patient {
			a.local.since = time.Now()
			c.waits.Need()
		}
		if err := c.queues.enter(call, r, &a.local, o); err != nil {
			return nil, failed("", r.Key, c.verdict(ctx, err, true))
		}
	}
	r.Owner, r.TTL = c.owner(), c.terms.TTL
	if c.terms.Metadata != "" || c.terms.StateTTL != 0 || c.terms.Yields {
		r.Attrs = c.terms.extra(r.Attrs)
	}
	a.request = r
	var held *Held
	var err error
	returned := false // the store, Backoff and hooks may panic
	defer func() {
		if !returned || err != nil {
			a.abandon(!returned)
		}
		common := err // the other calls of the queue would meet it too
		if !returned || err != nil && (c.ended(ctx) != nil || a.late) {
			common = nil
		}
		if wait {
			c.queues.leave(r, &a.local, a.taken.Swap(false), returned && err == nil, common)
		}
	}()
	if held, err = a.run(); err != nil {
		err = c.verdict(ctx, a.explained(err), a.taken.Load())
	}
	returned = true
	if err == nil || driver.VerdictOf(err) == driver.Taken { // a HeldError names the key itself
		return held, err
	}
	return nil, failed("", r.Key, err)
}

// run asks the store, judges the answer, and waits for the next try, until next ends the acquisition.
func (a *acquisition) run() (*Held, error) {
	c, state := a.client, asking
	if a.canWait = a.wait && c.can.Waits; a.canWait {
		state = waiting
	}
	for tries, failures := 0, 0; ; {
		var lease driver.Lease
		var err error
		sent := time.Now()
		if state == waiting {
			lease, err = c.store.Wait(a.ctx, a.request, func() { a.setTaken(true) })
		} else {
			lease, err = c.store.Acquire(a.ctx, a.request)
		}
		v := driver.VerdictOf(err)
		a.note(state, lease, v, time.Since(sent))
		c.health.record(err, v, sent, a.taken.Load())

		var held *Held
		got := hopeless
		switch {
		case v == driver.Taken:
			got, failures = taken, 0
		case v == driver.Done && state == waiting && !a.suffices(lease):
			got = short
		case v == driver.Done && a.request.Stateful() && lease.Saved == nil: // otherwise the work would begin anew
			got, err = unanswered, errStateNotTold
		case v == driver.Done:
			if lease.Sent.IsZero() {
				lease.Sent = sent
			}
			if held, err = a.register(lease); err == nil {
				return held, nil
			}
			if errors.Is(err, errTooLate) {
				got = late
			}
		case v == driver.NotSent || v == driver.Unanswered:
			got = unanswered
		}
		a.late = got == late
		if got == late || got == unanswered {
			if failures++; c.ended(a.caller) != nil {
				got = hopeless
			}
		}

		then := next(state, got, failures, a.wait, a.canWait)
		pause := time.Duration(0)
		switch then.pause {
		case afterTaken:
			pause = a.untilFree(err, tries)
			tries++
		case afterFailure:
			pause = c.backoff(0)
		}
		if then.end || basic.Sleep(a.ctx, pause) != nil {
			return nil, err
		}
		if state = then.state; state == waiting { // a store serves an owner once
			a.abandon(false)
			a.request.Owner, a.remains = c.owner(), nothing
		}
	}
}

// acquireState is the next call of the store.
type acquireState uint8

const (
	asking    acquireState = iota // Acquire
	waiting                       // Wait, with a new owner
	extending                     // Acquire: the owner has the lock, but too little of its TTL or not its state
)

// outcome is what a try came to, unless the watchdog has the lease.
type outcome uint8

const (
	hopeless   outcome = iota // another try would get the same error, or the ctx or the client has ended
	taken                     // the lock is taken
	short                     // Wait has granted it for too short a time, or without the state of its key
	late                      // it was granted, but the lease was over when the answer came
	unanswered                // nothing was sent, or it is not known what was executed
)

// step is what follows a try.
type step struct {
	end   bool // there is no other try
	state acquireState
	pause pauseKind // before the next try
}

type pauseKind uint8

const (
	atOnce pauseKind = iota
	afterTaken
	afterFailure
)

// maxFailures bounds the failures in a row of one acquisition, other than that the lock is
// taken: one connection that breaks does not fail a Lock that waits.
const maxFailures = 1

// next returns what follows a try in a state:
//
//	outcome     a Lock                                        a TryLock
//	taken       waiting if the store can wait, otherwise      end
//	            asking: after the backoff
//	short       extending: at once                            -
//	late        extending: at once, after the first failure   end
//	unanswered  waiting: end, because Wait has tolerated a    the same state: at once,
//	            failure; asking: again after the backoff,     after the first failure
//	            extending: again at once, after the first
//	            failure
//	hopeless    end                                           end
//
// failures counts the outcomes late and unanswered in a row. A grant that was late, short or without an answer
// is found by the next Acquire of its owner, which gives it the full TTL and no new place in the queue.
func next(state acquireState, got outcome, failures int, wait, canWait bool) step {
	switch {
	case got == taken && wait && canWait:
		return step{state: waiting, pause: afterTaken}
	case got == taken && wait:
		return step{state: asking, pause: afterTaken}
	case got == short:
		return step{state: extending}
	case failures > maxFailures:
	case got == late && wait:
		return step{state: extending}
	case got == unanswered && state == asking && wait:
		return step{state: asking, pause: afterFailure}
	case got == unanswered && state != waiting:
		return step{state: state}
	}
	return step{end: true}
}

// note records what a try has left at the store, and whether the lock is taken.
func (a *acquisition) note(state acquireState, lease driver.Lease, v driver.Verdict, took time.Duration) {
	left := nothing
	switch {
	case v == driver.Done || v == driver.Unconfirmed:
		left = something
	case state == waiting && (a.taken.Load() || !v.LeavesNothing()): // Wait itself reports what may still be executed
		left = something
	case state != waiting && v == driver.Unanswered:
		left = anything
	}
	if lease.Unanswered {
		left = anything
	}
	a.remains = max(a.remains, left)
	switch {
	case state == waiting || v == driver.Done:
	case v == driver.Taken:
		a.took = took
		a.setTaken(true)
	case a.ctx.Err() == nil || took >= max(overdue, 2*a.took): // otherwise the answer before counts
		a.setTaken(false)
	}
}

// untilFree returns the pause after an answer that the lock is taken.
func (a *acquisition) untilFree(err error, tries int) time.Duration {
	pause := a.client.backoff(tries)
	if held, _ := errors.AsType[*HeldError](err); held.ExpiresIn > 0 && held.ExpiresIn < pause { // otherwise the sum could overflow
		// The server drops a key within a millisecond or two of its end.
		pause = min(pause, held.ExpiresIn+2*time.Millisecond)
	}
	return pause
}

// register registers a lease that the store has granted with the watchdog.
func (a *acquisition) register(lease driver.Lease) (*Held, error) {
	c := a.client
	if lease.Request != a.request { // equal strings of the store stay, so that it decides where they lie
		lease.Request = a.request
	}
	lease.Unanswered = a.remains == anything
	since := lease.Sent
	if a.canWait { // Sent may be long before the lock was handed over
		since = time.Now()
	}
	if hold := c.terms.MinHold; hold > 0 && !a.observed.ofMulti() {
		lease = keptUntil(lease, time.Now().Add(hold)) // from the arrival of the answer, so that it never ends too early
	}
	return c.register(lease, since)
}

// register registers a lease with the watchdog, on the terms of the client. MaxHold counts
// from since.
func (c *Client) register(lease driver.Lease, since time.Time) (*Held, error) {
	grant := renewal.Grant{TTL: lease.TTL, Sent: lease.Sent}
	switch {
	case c.terms.Fixed:
		grant.Until = lease.Sent.Add(c.watchdog.Validity(lease.TTL))
	case c.terms.MaxHold > 0:
		grant.Until = since.Add(c.terms.MaxHold)
	}
	entry, err := c.watchdog.Register(lease, grant)
	if err == nil {
		return newHeld(c, entry, lease), nil
	}
	switch endOf(err) {
	case endClosed:
		return nil, ErrClosed
	case endLost:
		return nil, errTooLate
	}
	return nil, fmt.Errorf("%w: %w", errNotWatched, err)
}

// suffices reports whether enough is left of a handed-over lease. A Fixed lease must have
// nine tenths of its TTL, because no renewal will extend it. Any other must outlive a renewal
// that fails, unless its MaxHold ends it before. A request for the state of the key must have it, too.
func (a *acquisition) suffices(lease driver.Lease) bool {
	if a.request.Stateful() && lease.Saved == nil {
		return false
	}
	age, ttl, terms := time.Since(lease.Sent), a.request.TTL, a.client.terms
	if terms.Fixed {
		return age < ttl/10
	}
	need := a.client.watchdog.MinLeft(ttl)
	if terms.MaxHold > 0 {
		need = min(need, terms.MaxHold)
	}
	return age < ttl && a.client.watchdog.Validity(ttl)-age >= need
}

// setTaken records whether the lock is taken by the latest answer, and notifies the local
// queue.
func (a *acquisition) setTaken(taken bool) {
	if a.taken.CompareAndSwap(!taken, taken) && a.wait {
		a.client.queues.setTaken(a.request, taken)
		if taken {
			a.observed.waiting()
		}
	}
}

var (
	// errTooLate: if the same owner asks again, its grant gets its full TTL again.
	errTooLate = fmt.Errorf("%w: its answer came when the lease was over", ErrUnavailable)

	errStateNotTold = errors.New("the store has granted the lock without the state of its key")

	// errNotWatched: the timer engine is full, or closed.
	errNotWatched = errors.New("the lock cannot be kept alive")
)

// abandon releases, in the background, what the store has or may still grant to the owner. A call of the store
// that has not returned may leave anything.
func (a *acquisition) abandon(notReturned bool) {
	if a.remains != nothing || notReturned {
		a.client.releaser.Add(driver.Lease{Request: a.request, Unanswered: notReturned || a.remains == anything})
	}
}

// waitsForItself reports whether a request would wait for a handle that ends ctx when it is
// unlocked. Such a Lock never succeeds: ctx ends before the lock is free.
//
// A ctx that never ends, such as that of [context.WithoutCancel], may belong to a task that
// outlives the handle. The request then waits for it as for any other holder. A request for
// a permit is never refused, because others may raise the limit.
func (c *Client) waitsForItself(ctx context.Context, r driver.Request) bool {
	if ctx.Done() == nil {
		return false
	}
	for o := c.owners(ctx); o != nil; o = o.outer {
		if o.key == r.Key && excludes(o.mode, r.Mode) && o.held.Err() == nil {
			return ctx.Err() == nil
		}
	}
	return false
}

// excludes reports whether a holder in one mode keeps out any request in another mode.
func excludes(held, wanted driver.Mode) bool {
	if wanted == driver.Write {
		return held == driver.Write || held == driver.Read
	}
	return wanted == driver.Exclusive && held == driver.Exclusive || wanted == driver.Read && held == driver.Write
}

// explainTimeout bounds the request that explains an ErrWrongType.
const explainTimeout = time.Second

// explained names the kind of lock that the store does not support, or that stands in the way of an acquisition
// that failed with ErrWrongType, if the store reports it. It returns any other error as it is.
func (a *acquisition) explained(err error) error {
	v := driver.VerdictOf(err)
	if v == driver.Unsupported && a.request.Mode != driver.Exclusive { // every store has a mutex
		return textError{fmt.Sprintf("lock: the store has no %s: %v", kindOf(a.request.Mode), errors.ErrUnsupported), err}
	}
	if !a.client.can.Inspects || v != driver.WrongType || a.ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, explainTimeout, driver.NoAnswerError(explainTimeout))
	defer cancel()
	info, failure := a.client.store.Inspect(ctx, a.request.Key)
	if failure != nil || len(info.Holders) == 0 {
		return err
	}
	is, wanted := kindOf(info.Holders[0].Mode), kindOf(a.request.Mode)
	if is == wanted { // it has changed meanwhile
		return err
	}
	return textError{fmt.Sprintf("lock: the key is a %s, not a %s", is, wanted), err}
}

// kindOf names the locks that use a mode.
func kindOf(m driver.Mode) string {
	names := [...]string{"mutex", "read-write lock", "read-write lock", "semaphore", "batch"}
	if int(m) < len(names) {
		return names[m]
	}
	return m.String()
}
