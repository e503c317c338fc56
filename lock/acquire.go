package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// tolerated is how many tries of one acquisition may fail in a row, for reasons
// other than that the lock is taken, before it is given up: one connection that
// was cut is no reason to fail a Lock that waits.
const tolerated = 1

// acquisition is one Lock or TryLock. All its tries have one owner, so a try
// whose answer got lost is made good by the next.
type acquisition struct {
	client     *Client
	request    Request
	wait       bool
	waiter     Waiter // that does the waiting; nil: the lock is tried again and again
	tries      int    // that found the lock taken
	failures   int    // in a row
	left       bool   // the store may have something for the owner: a lock, or a place in a queue
	unanswered bool   // some try may still be executed
}

// acquire is the core of all locks of one key. The request says which, and what is
// asked of it.
func (c *Client) acquire(ctx context.Context, r Request, wait bool) (*Held, error) {
	if c == nil || c.core == nil {
		return nil, errZeroLock
	}
	if err := checkKey(r.Key); err != nil {
		return nil, err
	}
	if c.wrong != nil {
		return nil, c.wrong
	}
	switch {
	case ctx == nil:
		return nil, failed("", r.Key, errNilContext)
	case ctx.Err() != nil:
		return nil, failed("", r.Key, refusal(ctx, nil))
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.done()
	ctx, stop := c.whileOpen(ctx)
	defer stop()
	r.Owner, r.TTL, r.Extra = c.owner(), c.terms.TTL, c.terms.extra(r.Extra)
	a := &acquisition{client: c, request: r, wait: wait}
	var held *Held
	var err error
	if wait {
		held, err = a.runInLine(ctx)
	} else {
		held, err = a.run(ctx)
	}
	var taken *HeldError
	if err != nil && !errors.As(err, &taken) { // which names the key itself
		err = failed("", r.Key, err)
	}
	return held, err
}

// runInLine is run for a Lock: when its turn has come in the line of its key.
func (a *acquisition) runInLine(ctx context.Context) (*Held, error) {
	lines, r := &a.client.lines, a.request
	held, err := lines.enter(ctx, a.client, r)
	switch {
	case err != nil:
		return nil, refusal(ctx, err)
	case held != nil:
		return held, nil
	}
	a.waiter = a.client.waiter
	returned := false
	defer func() {
		if !returned { // the store or Backoff panicked: those behind are not to wait for ever
			lines.leave(r)
		}
	}()
	held, err = a.run(ctx)
	returned = true
	switch {
	case err == nil:
		a.client.sit(held, r)
	case ctx.Err() != nil || errors.Is(err, errTooLate):
		lines.leave(r)
	default:
		lines.fail(r, err)
	}
	return held, err
}

// run tries until the lock is got or given up. What may have been taken without
// an answer is given back in the background.
func (a *acquisition) run(ctx context.Context) (*Held, error) {
	for {
		held, err := a.try(ctx)
		if err == nil {
			return held, nil
		}
		pause, again := a.pause(ctx, err)
		if !again || a.rest(ctx, pause) != nil {
			a.abandon()
			return nil, refusal(ctx, err)
		}
		if a.waiter != nil { // which serves an owner once
			a.abandon()
			a.request.Owner, a.left, a.unanswered = a.client.owner(), false, false
		}
	}
}

// try asks the store once and puts what it grants under the watchdog.
func (a *acquisition) try(ctx context.Context) (*Held, error) {
	lease, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}
	a.left = true
	if lease.Request != a.request { // or else the store's strings are kept, which lie where it wants them
		lease.Request = a.request
	}
	lease.Unanswered = a.unanswered
	grant := renewal.Grant{TTL: lease.TTL, Sent: lease.Sent}
	switch terms := a.client.terms; {
	case terms.Fixed:
		grant.Until = lease.Sent.Add(a.client.dog.Life(terms.TTL))
	case terms.MaxHold > 0 && a.waiter != nil: // Sent may be long before the lock was handed over
		grant.Until = time.Now().Add(terms.MaxHold)
	case terms.MaxHold > 0:
		grant.Until = lease.Sent.Add(terms.MaxHold)
	}
	entry, err := a.client.dog.Register(lease, grant)
	switch {
	case errors.Is(err, renewal.ErrClosed):
		return nil, ErrClosed
	case errors.Is(err, ErrLost):
		return nil, errTooLate
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotWatched, err)
	}
	return newHeld(a.client, entry), nil
}

// ask asks the store once: to wait, if it can. The lease it returns has Sent set.
func (a *acquisition) ask(ctx context.Context) (Lease, error) {
	if a.waiter == nil {
		return a.askOnce(ctx)
	}
	lease, err := a.waiter.Wait(ctx, a.request)
	a.unanswered = a.unanswered || lease.Unanswered
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		a.waiter = nil
		return a.askOnce(ctx)
	case err != nil:
		a.left = true
		return lease, err
	case !a.client.terms.Fixed || time.Since(lease.Sent) < a.request.TTL/10:
		return lease, nil
	}
	// What was handed over has less than a TTL left, and no renewal will give a
	// fixed lease the rest.
	if lease, err = a.askOnce(ctx); err != nil {
		a.unanswered = true
		return lease, fmt.Errorf("%w: %w", errTooLate, err)
	}
	return lease, nil
}

func (a *acquisition) askOnce(ctx context.Context) (Lease, error) {
	sent := time.Now()
	lease, err := a.client.store.Acquire(ctx, a.request)
	if err == nil && lease.Sent.IsZero() {
		lease.Sent = sent
	}
	return lease, err
}

var (
	// errTooLate: asking again gives the same grant its full TTL again.
	errTooLate = fmt.Errorf("%w: the store's answer came when the lease was over", ErrNotAcquired)

	// errNotWatched: the timer engine is full, or closed.
	errNotWatched = errors.New("the lock cannot be kept alive")
)

// pause tells whether to try again after an error, and after what time:
//
//	taken              → a Lock waits: the backoff, or until the lease ends; a TryLock is done
//	ctx has ended      → done; whatever the error, it may be no answer
//	granted too late   → a Lock asks again, if it is the first failure in a row; a TryLock is done
//	anything else, of a store that waits itself
//	                   → done: it has tolerated what there was to tolerate
//	no answer, or a failing server
//	                   → again, if it is the first failure in a row: a TryLock at once
//	anything else      → done
func (a *acquisition) pause(ctx context.Context, err error) (time.Duration, bool) {
	var taken *HeldError
	switch {
	case errors.As(err, &taken):
		a.failures = 0
		pause := a.client.backoff(a.tries)
		a.tries++
		if left := taken.ExpiresIn; left > 0 && left < pause { // if not, what is added could overflow
			// The server drops a key within a millisecond or two of its end.
			pause = min(pause, left+2*time.Millisecond)
		}
		return pause, a.wait
	case ctx.Err() != nil:
		a.unanswered = a.unanswered || a.waiter == nil // a waiter says so itself
		return 0, false
	case errors.Is(err, errTooLate):
		a.failures++
		return 0, a.wait && a.failures <= tolerated
	case a.waiter != nil || final(err):
		return 0, false
	}
	a.unanswered = true
	a.failures++
	if !a.wait {
		return 0, a.failures <= tolerated
	}
	return a.client.backoff(0), a.failures <= tolerated
}

// final tells errors that no further try would mend, and that are answers.
func final(err error) bool {
	return errors.Is(err, ErrWrongType) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotAcquired) ||
		errors.Is(err, errNotWatched) || errors.Is(err, ErrBadKey) || errors.Is(err, ErrBadTTL) || errors.Is(err, ErrBadMembers) ||
		errors.Is(err, errors.ErrUnsupported)
}

// rest waits between two tries.
func (a *acquisition) rest(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// abandon sees to it that nothing is held for nobody: what was granted and cannot
// be used, a place in a queue, and what a try without an answer may take yet.
func (a *acquisition) abandon() {
	if a.left || a.unanswered {
		a.client.cleaner.add(Lease{Request: a.request, Unanswered: a.unanswered})
	}
}

// refusal is the error of an acquisition that has failed: one whose ctx has ended
// matches ErrNotAcquired and the cause of that, or ErrClosed if that is the cause.
func refusal(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, ErrClosed):
		return ErrClosed
	case err == nil || errors.Is(err, cause):
		return fmt.Errorf("%w: %w", ErrNotAcquired, cause)
	default:
		return fmt.Errorf("%w: %w: %w", ErrNotAcquired, cause, bareError{err})
	}
}
