// Wait: how a waiter asks, sleeps and is woken.

package redisson

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxSleep    = 30 * time.Second       // between two requests of a waiter that gets no message
	expiryDelay = 2 * time.Millisecond   // the server deletes a key at most this long after its expiry
	firstRetry  = 10 * time.Millisecond  // after a request that failed; it doubles each time
	lastRetry   = time.Second            // the longest pause between two such requests
	tolerance   = 5 * time.Second        // a waiter fails after this time without an answer
	overdue     = 100 * time.Millisecond // an answer should have come by then
)

// Wait implements [driver.Store]. It tries, subscribes to the channel of the lock, tries again when
// the server has confirmed the subscription, and then tries after each message, and when the lease
// that the server reported has ended, but at least every 30 seconds.
//
// Without a queue on the server, a message wakes one waiter of each process, and the first of them to
// ask gets the lock. In mode Read or Write it wakes all waiters of the process. A waiter of an
// RFairLock has a channel of its own.
//
// Wait returns an error if its first two requests fail, if the server refuses to execute the first one, or if the server does not answer for 5
// seconds.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	w := &waiter{store: s, request: &r, onQueued: queued}
	lease, err := w.wait(ctx)
	lease.Unanswered = w.unanswered
	if err != nil {
		err = failed("wait", err)
		if w.queued || w.unanswered {
			err = driver.SentBefore(err)
		}
	}
	return lease, err
}

// waiter is one call of Wait.
type waiter struct {
	store      *Store
	request    *driver.Request
	onQueued   func() // notifies the client
	state      *leaseState
	subscriber *subscriber

	queued     bool          // the server has answered that the lock is taken
	unanswered bool          // the server may still execute a request
	failing    time.Time     // when the current series of failures began; zero if the last request was answered
	retry      time.Duration // the latest pause of that series
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	s := w.store
	if err := s.checkNew(w.request); err != nil {
		return driver.Lease{}, err
	}
	sharded, err := w.begin(ctx)
	if err != nil {
		return driver.Lease{}, err
	}
	defer s.redis.End()
	served := false
	defer func() { s.wakeups.leave(w.subscriber, served) }()
	for {
		began := time.Now()
		a, err := s.send(ctx, w.request, w.state, true)
		if err == nil && a.verdict == granted {
			served = true
			return s.lease(w.request, a), nil
		}
		if err == nil && a.verdict != taken {
			err = s.refusal(a)
		}
		pause := sleepFor(a.left)
		if err != nil {
			if pause, err = w.onError(ctx, err, began); err != nil {
				s.wakeups.wakeNext(w.subscriber)
				return driver.Lease{}, err
			}
		} else {
			w.failing, w.retry = time.Time{}, 0
			if !w.queued {
				w.queued = true
				w.onQueued()
			}
			s.wakeups.listen(w.subscriber, sharded)
		}
		if err := w.sleep(ctx, pause); err != nil {
			return driver.Lease{}, err
		}
	}
}

// begin registers the call and joins the channel. It reports whether channels are sharded.
func (w *waiter) begin(ctx context.Context) (sharded bool, err error) {
	s := w.store
	w.state = s.newState(w.request, 0)
	publish, err := s.publishCommand(ctx, w.state.name)
	if err != nil {
		return false, err
	}
	if err := s.redis.Begin(ctx); err != nil {
		return false, err
	}
	sharded = publish == "SPUBLISH"
	w.subscriber = s.wakeups.join(s.waitChannel(w.request.Mode, w.state), w.state.slot, sharded, w.request.Mode != driver.Exclusive)
	return sharded, nil
}

// waitChannel returns the channel of the messages for an owner.
func (s *Store) waitChannel(m driver.Mode, st *leaseState) string {
	switch {
	case m != driver.Exclusive:
		return rwChannel(st.name)
	case s.options.Kind == KindFairLock:
		return lockChannel(st.name) + ":" + st.owner
	}
	return lockChannel(st.name)
}

// sleepFor returns how long to wait for a message while other leases last for left.
func sleepFor(left time.Duration) time.Duration {
	if left < 0 { // they do not end
		return maxSleep
	}
	return min(left+expiryDelay, maxSleep)
}

// onError returns the pause before the next request, or the error that ends the wait. began is when
// the failed request was sent.
func (w *waiter) onError(ctx context.Context, err error, began time.Time) (time.Duration, error) {
	v := driver.VerdictOf(err)
	if v.IsFinal() || v == driver.NotExecuted && !w.queued {
		return 0, err
	}
	w.unanswered = w.unanswered || !v.LeavesNothing()
	if ctx.Err() != nil {
		if w.queued && w.failing.IsZero() && time.Since(began) < overdue {
			return 0, context.Cause(ctx)
		}
		return 0, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	first := w.failing.IsZero()
	if first {
		w.failing = time.Now()
	}
	if !w.queued && !first || time.Since(w.failing) >= tolerance {
		return 0, err
	}
	w.retry = min(max(2*w.retry, firstRetry), lastRetry)
	return w.retry, nil
}

// sleep waits for a message, for the pause to pass, or for the end of ctx or the store.
func (w *waiter) sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		if !w.failing.IsZero() {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
		}
		return context.Cause(ctx)
	case <-w.store.redis.Context().Done():
		return driver.ErrStoreClosed
	case <-w.subscriber.wake:
	case <-w.subscriber.missed():
		w.subscriber.clearMissed()
	case <-timer.C:
	}
	return nil
}
