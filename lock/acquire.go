// This file is about every Lock and TryLock: its states, its tries and its end.

package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

// maxFailures bounds the failures in a row of one acquisition, other than that the lock is
// taken: one connection that breaks does not fail a Lock that waits.
const maxFailures = 1

// acquireState says which call of the store comes next. All transitions are in this file.
//
//	state      next call        taken             granted, but not enough    any other error
//	asking     Acquire          asking (pause)    extending                  asking (once), done
//	waiting    Wait             waiting (pause)   extending                  done
//	extending  Acquire, again   asking, waiting   extending (once)           extending (once), done
//
// A Lock begins in waiting if the store can wait, otherwise in asking; a TryLock begins in
// asking and ends when the lock is taken. waiting becomes asking if the wrapped store
// cannot wait. Every state ends when the ctx or the client ends.
type acquireState uint8

const (
	asking    acquireState = iota
	waiting                // each Wait has a new owner, because a store serves an owner once
	extending              // the owner has the lock, but too little of its TTL or not its state; an Acquire gives it both
)

// acquisition is one Lock or TryLock. All its tries have the same owner, except after a Wait,
// so that a try recovers the grant of an earlier try whose answer was lost.
type acquisition struct {
	ctx        callContext // of its calls of the store
	client     *Client
	request    driver.Request
	wait       bool // it is a Lock
	state      acquireState
	waiter     driver.Waiter // nil if the store cannot wait
	tries      int           // that found the lock taken
	failures   int           // in a row
	left       bool          // the store may keep a lock or a place in a queue for the owner
	unanswered bool          // some try may still be executed
	taken      atomic.Bool   // the lock was taken by the latest answer; counted by the local queue
	took       time.Duration // how long the latest answer to an Acquire took
	observed   *observation  // nil without hooks
}

// acquire serves every Lock and TryLock of a lock of one key.
func (c *Client) acquire(ctx context.Context, r driver.Request, wait bool, o *observation) (*Held, error) {
	if c == nil || c.core == nil {
		return nil, errZeroLock
	}
	if err := checkKey(r.Key); err != nil {
		return nil, err
	}
	if c.wrong != nil {
		return nil, c.wrong
	}
	if err := c.checkKept(r.Mode); err != nil {
		return nil, failed("", r.Key, err)
	}
	if err := c.checkState(r.Mode); err != nil {
		return nil, failed("", r.Key, err)
	}
	switch {
	case ctx == nil:
		return nil, failed("", r.Key, basic.ErrNilContext)
	case o == onlyChecks:
		return nil, nil
	case o == nil || o.isMulti:
		return c.acquireLease(ctx, r, wait, o)
	}
	return o.call(ctx, r.Key, func(ctx context.Context) (*Held, error) { return c.acquireLease(ctx, r, wait, o) })
}

// acquireLease is acquire after the checks of its arguments.
func (c *Client) acquireLease(ctx context.Context, r driver.Request, wait bool, o *observation) (*Held, error) {
	if ctx.Err() != nil {
		return nil, failed("", r.Key, c.verdict(ctx, nil, true))
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.done()
	r.Owner, r.TTL, r.Attrs = c.owner(), c.terms.TTL, c.terms.extra(r.Attrs)
	a := &acquisition{ctx: callContext{caller: ctx, life: &c.life}, client: c, request: r, wait: wait, observed: o}
	defer a.ctx.finish(endReturned)
	run := a.run
	if wait {
		run = a.runInQueue
	}
	held, err := run()
	if err != nil && (ctx.Err() != nil || !errors.As(err, new(*HeldError))) { // the error of the store names the key already
		err = failed("", r.Key, err)
	}
	return held, err
}

// runInQueue runs a Lock once the local queue of its key lets it ask the store.
func (a *acquisition) runInQueue() (*Held, error) {
	w := a.client.beginWait(a.request.Key)
	defer a.client.endWait(w)
	queues, r := &a.client.queues, a.request
	if err := queues.enter(&a.ctx, r, a.observed); err != nil {
		return nil, a.client.verdict(a.ctx.caller, err, true)
	}
	if a.waiter = a.client.waiter; a.waiter != nil {
		a.state = waiting
	}
	returned := false
	defer func() {
		if !returned { // the store, Backoff or a hook panicked: let the next calls go on
			a.left, a.unanswered = true, true
			a.abandon()
			queues.leave(r, a.taken.Swap(false), false, nil)
		}
	}()
	held, err := a.run()
	returned = true
	common := err // the other calls of the queue would meet it too
	if a.ended() || errors.Is(err, errTooLate) {
		common = nil
	}
	queues.leave(r, a.taken.Swap(false), err == nil, common)
	return held, err
}

// run tries until it has the lock or gives up. Then it releases, in the background, what
// the store may have granted.
func (a *acquisition) run() (*Held, error) {
	for {
		held, err := a.try()
		if err == nil {
			return held, nil
		}
		pause, again := a.pause(err)
		if !again || basic.Sleep(&a.ctx, pause) != nil {
			a.abandon()
			err = a.explained(err) // the caller's context may end meanwhile
			return nil, a.client.verdict(a.ctx.caller, err, a.taken.Load())
		}
		if a.state == waiting {
			a.abandon()
			a.request.Owner, a.left, a.unanswered = a.client.owner(), false, false
		}
	}
}

// try asks the store once and registers the lease with the watchdog.
func (a *acquisition) try() (*Held, error) {
	lease, err := a.ask()
	if err != nil {
		return nil, err
	}
	a.left = true
	if lease.Request != a.request { // equal strings of the store stay, so that it decides where they lie
		lease.Request = a.request
	}
	lease.Unanswered = a.unanswered
	since := lease.Sent
	if a.waiter != nil { // Sent may be long before the lock was handed over
		since = time.Now()
	}
	if hold := a.client.terms.MinHold; hold > 0 {
		lease = keptUntil(lease, time.Now().Add(hold)) // from the arrival of the answer, so that it never ends too early
		if a.observed.ofMulti() {
			a.client.markPartial(lease.Owner)
		}
	}
	held, err := a.client.register(lease, since)
	if err != nil {
		a.client.unmarkPartial(lease.Owner)
	}
	if errors.Is(err, errTooLate) {
		a.state = extending
	}
	return held, err
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
	switch {
	case errors.Is(err, renewal.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, ErrLost):
		return nil, errTooLate
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotWatched, err)
	}
	return newHeld(c, entry), nil
}

// ask calls Wait or Acquire, as the state says. The lease that it returns has Sent set.
//
// A handed-over lock starts with the rest of its place, which may be less than its terms
// promise. An Acquire by the same owner gives it the full TTL, without a new place at the end
// of the queue. It also gets the state of the key, if the store could not tell it.
func (a *acquisition) ask() (driver.Lease, error) {
	sent := time.Now()
	if a.state == waiting {
		lease, err := a.waiter.Wait(&a.ctx, a.request, func() { a.setTaken(true) })
		a.unanswered = a.unanswered || lease.Unanswered
		a.client.health.record(err, sent, a.taken.Load())
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			a.waiter, a.state = nil, asking
		case err != nil:
			a.left = a.left || a.taken.Load() || !errors.Is(err, driver.ErrNotSent) // with a place in the queue, something was sent
			return lease, err
		case a.suffices(lease):
			return lease, nil
		default:
			a.state, a.left = extending, true
		}
		sent = time.Now()
	}
	lease, err := a.client.store.Acquire(&a.ctx, a.request)
	if err == nil && a.request.Stateful() && lease.Saved == nil { // otherwise the work would begin anew
		a.left, err = true, errStateNotTold
	}
	took := time.Since(sent)
	switch {
	case err == nil:
		if lease.Sent.IsZero() {
			lease.Sent = sent
		}
	case errors.As(err, new(*HeldError)):
		a.took = took
		a.setTaken(true)
	case a.ctx.Err() == nil || took >= max(overdue, 2*a.took): // otherwise the answer before counts
		a.setTaken(false)
	}
	a.client.health.record(err, sent, a.taken.Load())
	return lease, err
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

// setTaken records whether the lock is taken by the latest answer, and tells the local
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

// pause decides after an error whether there is another try, and when:
//
//	taken               a Lock: after the backoff, or when the lease ends; a TryLock: none
//	ctx or client ended none; the error may not be an answer
//	lease over          a Lock: at once, after the first failure in a row; a TryLock: none
//	other, waiting      none: Wait has tolerated a failure already
//	permanent error     none
//	too few replicas    none
//	no answer           after the first failure in a row: a TryLock and extending at once,
//	                    a Lock after the backoff
func (a *acquisition) pause(err error) (time.Duration, bool) {
	var taken *HeldError
	switch {
	case errors.As(err, &taken):
		a.failures, a.state = 0, asking
		if a.waiter != nil {
			a.state = waiting
		}
		pause := a.client.backoff(a.tries)
		a.tries++
		if left := taken.ExpiresIn; left > 0 && left < pause { // otherwise the sum below could overflow
			// The server drops a key within a millisecond or two of its end.
			pause = min(pause, left+2*time.Millisecond)
		}
		return pause, a.wait
	case errors.As(err, new(*driver.ReplicasError)):
		a.left = true // the store has the lock, and gets it back at once
		return 0, false
	case a.ended():
		a.unanswered = a.unanswered || a.state != waiting && !errors.Is(err, driver.ErrNotSent) // Wait tells it itself
		return 0, false
	case errors.Is(err, errTooLate):
		a.failures++
		return 0, a.wait && a.failures <= maxFailures
	case a.state == waiting || storekit.IsPermanent(err) || errors.Is(err, errNotWatched):
		return 0, false
	}
	a.unanswered = a.unanswered || !errors.Is(err, driver.ErrNotSent)
	a.failures++
	if !a.wait || a.state == extending {
		return 0, a.failures <= maxFailures
	}
	return a.client.backoff(0), a.failures <= maxFailures
}

// ended reports whether the caller's context or the client has ended.
func (a *acquisition) ended() bool { return a.client.ended(a.ctx.caller) != nil }

// abandon releases, in the background, whatever the store has or may still grant to the owner:
// a lock, a place in a queue, or the grant of a try without an answer.
func (a *acquisition) abandon() {
	if a.left || a.unanswered {
		a.client.releaser.Add(driver.Lease{Request: a.request, Unanswered: a.unanswered})
	}
}

// acquireOnce is acquire for a lock that is not reentrant. It returns ErrHeldByContext if
// the call would wait for a handle that its own ctx comes from.
func (c *Client) acquireOnce(ctx context.Context, r driver.Request, wait bool, o *observation) (*Held, error) {
	if c.waitsForItself(ctx, r) {
		err := ErrHeldByContext
		if r.Mode == driver.Exclusive {
			err = fmt.Errorf("%w; use a Reentrant", err)
		}
		return nil, failed("", r.Key, err)
	}
	return c.acquire(ctx, r, wait, o)
}

// waitsForItself reports whether a request would wait for a handle that ends ctx when it is
// unlocked. Such a Lock never succeeds: ctx ends before the lock is free.
//
// A ctx that never ends, such as that of [context.WithoutCancel], may belong to a task that
// outlives the handle. The request then waits for it as for any other holder. A request for
// a permit is never refused, because others may raise the limit.
func (c *Client) waitsForItself(ctx context.Context, r driver.Request) bool {
	if ctx == nil || ctx.Done() == nil {
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
	switch held {
	case driver.Exclusive:
		return wanted == driver.Exclusive
	case driver.Write:
		return wanted == driver.Write || wanted == driver.Read
	case driver.Read:
		return wanted == driver.Write
	}
	return false
}

// explainTimeout bounds the request that explains an ErrWrongType.
const explainTimeout = time.Second

// explained names the kind of lock that stands in the way of an acquisition that failed
// with ErrWrongType, if the store can tell. It returns any other error as it is.
func (a *acquisition) explained(err error) error {
	inspector, ok := a.client.store.(driver.Inspector)
	if !ok || !errors.Is(err, ErrWrongType) || a.ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(&a.ctx, explainTimeout, noAnswerError(explainTimeout))
	defer cancel()
	info, failure := inspector.Inspect(ctx, a.request.Key)
	if failure != nil || len(info.Holders) == 0 {
		return err
	}
	is, wanted := kindOf(info.Holders[0].Mode), kindOf(a.request.Mode)
	if is == wanted { // it has changed meanwhile
		return err
	}
	return textError{fmt.Sprintf("lock: %s is a %s, not a %s", basic.Quote(a.request.Key), is, wanted), err}
}

// kindOf names the locks that use a mode.
func kindOf(m driver.Mode) string {
	switch m {
	case driver.Exclusive:
		return "mutex"
	case driver.Read, driver.Write:
		return "read-write lock"
	case driver.Permit:
		return "semaphore"
	case driver.Members:
		return "group of batches"
	}
	return m.String()
}
