// Wait, which waits in the queue of the server.

package core

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// waiter is one call of Wait. It relies on answers to its own requests. A signal is a hint,
// and its token shows whether it is fresh.
type waiter struct {
	store   *store
	request driver.Request
	signals chan uint64
	polled  chan polled

	lastPollSent time.Time // the latest request that was answered "taken"
	maxToken     uint64    // the token in that answer; later grants have higher ones
	polling      bool
	unanswered   bool
	failures     int
}

type polled struct {
	answer
	sent time.Time
	err  error
}

const retryAfter = 10 * time.Millisecond

// Wait implements driver.Store, in a plan with a queue.
func (s *store) Wait(ctx context.Context, r driver.Request, _ func()) (driver.Lease, error) {
	w := &waiter{store: s, request: r, lastPollSent: time.Now(), polled: make(chan polled, 1)}
	w.signals = s.listen(r.Owner)
	defer s.unlisten(r.Owner)
	lease, err := w.wait(ctx)
	lease.Unanswered = w.unanswered || w.polling
	return lease, err
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var done bool
		var lease driver.Lease
		var err error
		select {
		case <-ctx.Done():
			return driver.Lease{}, context.Cause(ctx)
		case <-w.store.closing:
			return driver.Lease{}, lock.ErrClosed
		case token := <-w.signals:
			lease, done = w.signalled(token)
			if !done {
				w.poll(ctx)
			}
		case <-timer.C:
			w.poll(ctx)
		case p := <-w.polled:
			w.polling = false
			var again time.Duration
			lease, again, err = w.answered(p)
			done = again == 0
			timer.Reset(again)
		}
		if done || err != nil {
			return lease, err
		}
	}
}

// poll sends a request in the background, because a signal may arrive first.
func (w *waiter) poll(ctx context.Context) {
	if w.polling {
		return
	}
	w.polling = true
	b := w.store.process.backend
	b.Pending.Go(func() {
		a, sent, err := w.store.ask(ctx, "wait", w.request, b.plan.place)
		w.polled <- polled{a, sent, err}
	})
}

// answered handles an answer. It returns the lease, the time of the next poll, or an error.
func (w *waiter) answered(p polled) (driver.Lease, time.Duration, error) {
	place := w.store.process.backend.plan.place
	switch {
	case p.err != nil:
		w.unanswered = true
		w.failures++
		if w.failures > 1 && (w.maxToken == 0 || time.Since(w.lastPollSent) > place) {
			return driver.Lease{}, 0, p.err
		}
		return driver.Lease{}, max(retryAfter, place/12), nil
	case p.verdict == granted:
		return w.lease(p.token, p.sent, p.sent), 0, nil
	case p.verdict == refused:
		return driver.Lease{}, 0, errGivenUp
	}
	w.failures, w.lastPollSent, w.maxToken = 0, p.sent, max(w.maxToken, p.token)
	again := place / 3
	if p.head {
		again = min(again, p.expiresIn+2*time.Millisecond)
	}
	return driver.Lease{}, again, nil
}

// signalled returns the lease of a signal, unless the signal is stale or the rest of the lease
// is too short.
func (w *waiter) signalled(token uint64) (driver.Lease, bool) {
	b := w.store.process.backend
	if token <= w.maxToken || time.Since(w.lastPollSent) > b.plan.place/2 {
		return driver.Lease{}, false
	}
	b.Count(b.Counts.Operations, "hand-over")
	return w.lease(token, w.lastPollSent.Add(b.plan.place-w.request.TTL), w.lastPollSent), true
}

// lease returns a lease whose TTL counts from sent. asked is the instant of the request from
// which its place counts.
func (w *waiter) lease(token uint64, sent, asked time.Time) driver.Lease {
	w.store.process.backend.Asked(w.request.Owner, asked)
	return driver.Lease{Request: w.request, Token: token, Sent: sent}
}

func (s *store) listen(owner string) chan uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	signals := make(chan uint64, 1)
	s.listeners[owner] = signals
	return signals
}

func (s *store) unlisten(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, owner)
}

// deliver passes a signal to the waiter of an owner.
func (s *store) deliver(owner string, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.listeners[owner] <- token:
	default: // there is no listener, or it has a signal already
	}
}
