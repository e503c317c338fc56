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
	tries      int  // that found the lock taken
	failures   int  // in a row
	unanswered bool // some try may still be executed
}

// acquire is the core of all locks of one key.
func (c *Client) acquire(ctx context.Context, key string, wait bool) (*Held, error) {
	if c == nil || c.core == nil {
		return nil, errZeroLock
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if c.wrong != nil {
		return nil, c.wrong
	}
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("lock: lock %s: %w", quoted(key), err)
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	a := &acquisition{
		client:  c,
		request: Request{Key: key, Owner: c.owner(), Mode: Exclusive, TTL: c.terms.TTL},
		wait:    wait,
	}
	held, err := a.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: lock %s: %w", quoted(key), err)
	}
	return held, nil
}

// run tries until the lock is got or given up. What may have been taken without
// an answer is given back in the background.
func (a *acquisition) run(ctx context.Context) (*Held, error) {
	for {
		lease, err := a.try(ctx)
		if err == nil {
			held, err := a.hold(lease)
			if err == nil {
				return held, nil
			}
			if !a.wait || !errors.Is(err, ErrLost) || ctx.Err() != nil {
				a.client.cleaner.add(lease)
				return nil, refusal(ctx, err)
			}
			continue // the answer came too late to be of use: asking again renews the grant
		}
		pause, again := a.pause(err)
		if !again {
			a.abandon()
			return nil, refusal(ctx, err)
		}
		if err := a.rest(ctx, pause); err != nil {
			a.abandon()
			return nil, err
		}
	}
}

// try asks the store once.
func (a *acquisition) try(ctx context.Context) (Lease, error) {
	sent := time.Now()
	lease, err := a.client.store.Acquire(ctx, a.request)
	if err != nil {
		return Lease{}, err
	}
	lease.Request = a.request
	lease.Unanswered = a.unanswered
	if lease.Sent.IsZero() {
		lease.Sent = sent
	}
	return lease, nil
}

// hold puts a grant under the watchdog.
func (a *acquisition) hold(lease Lease) (*Held, error) {
	grant := renewal.Grant{TTL: lease.TTL, Sent: lease.Sent}
	switch terms := a.client.terms; {
	case terms.Fixed:
		grant.Until = lease.Sent.Add(a.client.dog.Life(terms.TTL))
	case terms.MaxHold > 0:
		grant.Until = lease.Sent.Add(terms.MaxHold)
	}
	entry, err := a.client.dog.Register(lease, grant)
	switch {
	case errors.Is(err, renewal.ErrClosed):
		return nil, ErrClosed
	case err != nil:
		return nil, err
	}
	return &Held{core: a.client.core, entry: entry}, nil
}

// pause tells whether to try again after an error, and after what time:
//
//	taken                → a Lock waits: the backoff, or until the lease ends; a TryLock is done
//	no answer, or a failing server
//	                     → again, if it is the first in a row: a TryLock at once
//	anything else        → done
func (a *acquisition) pause(err error) (time.Duration, bool) {
	var taken *HeldError
	switch {
	case errors.As(err, &taken):
		a.failures = 0
		pause := a.client.backoff(a.tries)
		a.tries++
		if taken.ExpiresIn > 0 {
			// The server drops a key within a millisecond or two of its end.
			pause = min(pause, taken.ExpiresIn+2*time.Millisecond)
		}
		return pause, a.wait
	case final(err):
		return 0, false
	}
	a.unanswered = true
	a.failures++
	if a.failures > tolerated {
		return 0, false
	}
	if !a.wait {
		return 0, true
	}
	return a.client.backoff(0), true
}

// final tells errors that no further try would mend, and that say that nothing
// was taken.
func final(err error) bool {
	return errors.Is(err, ErrWrongType) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotAcquired) ||
		errors.Is(err, ErrBadKey) || errors.Is(err, ErrBadTTL) || errors.Is(err, errors.ErrUnsupported)
}

// rest waits between two tries.
func (a *acquisition) rest(ctx context.Context, pause time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return refusal(ctx, nil)
	case pause <= 0:
		return nil
	}
	a.client.waiting.Add(1)
	defer a.client.waiting.Add(-1)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return refusal(ctx, nil)
	case <-a.client.ending:
		return ErrClosed
	case <-timer.C:
		return nil
	}
}

// abandon sees to it that a try without an answer takes the lock for nobody.
func (a *acquisition) abandon() {
	if a.unanswered {
		a.client.cleaner.add(Lease{Request: a.request, Unanswered: true})
	}
}

// refusal is the error of an acquisition that has failed: one whose ctx has ended
// matches ErrNotAcquired and the cause of that.
func refusal(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case err == nil || errors.Is(err, ErrNotAcquired):
		return fmt.Errorf("%w: %w", ErrNotAcquired, context.Cause(ctx))
	default:
		return fmt.Errorf("%w: %w: %w", ErrNotAcquired, context.Cause(ctx), err)
	}
}
