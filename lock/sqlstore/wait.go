// Wait, and the requests of a waiter.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	pollsPerPlace = 3                      // see poller.due
	retryAfter    = 10 * time.Millisecond  // the delay before the first request is sent again
	overdue       = 100 * time.Millisecond // a request without an answer is normal for so long
	expiryDelay   = 2 * time.Millisecond   // a lease that has expired may be granted after that
)

// Wait implements [driver.Store]. If the lock is taken, Wait appends the owner to the queue of
// the lock. The place there lasts for 10 s after each request that extends it, or for one TTL if
// that is shorter, and is extended three times in that time. A release grants the lock to the
// first live place, for the rest of that place. A waiter learns of it from Options.Listener,
// from another call of the same Store, or from the poller, which reads the rows of all locks that this
// Store waits for every Options.PollInterval. Then it asks for the full TTL.
//
// Wait returns an error if its first two requests fail. Once it is queued, it returns an error
// if a request fails and no answer has come for as long as a place lasts.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if err := checkRequest(r); err != nil {
		return driver.Lease{}, err
	}
	if err := basic.Cause(ctx); err != nil {
		return driver.Lease{}, err
	}
	w := &waiter{store: s, request: r, onQueued: queued, place: min(place, r.TTL), wake: make(chan struct{}, 1), failed: make(chan error, 1)}
	s.poller.mu.Lock()
	s.poller.waiters[r.Owner] = w // for the messages of this process
	s.poller.mu.Unlock()
	defer s.poller.remove(w)
	if l := s.options.Listener; l != nil {
		defer l.Subscribe(messageFor(r.Owner), w.wakeUp)()
	}
	err := w.wait(ctx)
	if err != nil {
		err = failed("wait", err)
		if !w.sent {
			err = driver.NotSent.Error(err)
		}
		return driver.Lease{Unanswered: w.unanswered}, err
	}
	w.lease.Unanswered = w.unanswered
	return w.lease, nil
}

// waiter is one call of Wait. It asks for the lock at first, which enters the queue, and whenever it is woken.
// In between the poller of the store extends its place.
type waiter struct {
	store    *Store
	request  driver.Request
	onQueued func()        // notifies the client
	place    time.Duration // the length of the place
	wake     chan struct{} // has an element if the lock may be free or handed over
	failed   chan error    // has an element if the poller has had no answer for too long

	lease        driver.Lease
	sent         bool          // some request may have reached the database
	unanswered   bool          // the database may still execute a request
	failures     int           // of requests in a row
	failingSince time.Time     // when the first of them was sent
	roundTrip    time.Duration // of the latest answered request

	// The mutex of the poller guards all below.
	queued       bool      // the database has answered that the owner must wait
	entered      bool      // the owner has a place, as far as is known
	ahead        int       // live places before it, by the latest answer
	channel      string    // on which the owner is notified, by its place
	pollAt       time.Time // when the row of the key is read next
	extendAt     time.Time // when the place is extended next
	asked        time.Time // when the poller has sent a read that has no answer yet; otherwise zero
	lastAnswer   time.Time // when the latest answer came
	pollFailures int       // of requests of the poller in a row

	pace    time.Duration // for how long holders keep the lock lately; 0 if that is not known
	token   int64         // of the grant that the latest read has found; 0 before the first read
	counted int           // how many places were ahead when they were counted
	since   int64         // the token at that time
}

func (p *poller) remove(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters[w.request.Owner] == w {
		delete(p.waiters, w.request.Owner)
	}
}

// wakeUp makes the waiters of this process ask.
func (s *Store) wakeUp(owners []string) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	for _, owner := range owners {
		if w, ok := s.poller.waiters[owner]; ok {
			w.wakeUp()
		}
	}
}

func (w *waiter) wakeUp() { signal(w.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is pending already
	}
}

// wait sends requests until the lock is granted.
func (w *waiter) wait(ctx context.Context) error {
	for {
		granted, err := w.step(ctx)
		var pause time.Duration
		if err != nil {
			pause, err = w.onError(ctx, err)
		}
		if err == nil && !granted {
			err = w.sleep(ctx, pause)
		}
		if err != nil || granted {
			return err
		}
	}
}

// sleep waits until the next request is due. No message shortens a pause after a failure, because requests without
// a pause would contend with the writer of SQLite all the time.
func (w *waiter) sleep(ctx context.Context, pause time.Duration) error {
	wake, failed, rested := w.wake, w.failed, (<-chan time.Time)(nil)
	if pause > 0 {
		wake, failed, rested = nil, nil, time.After(pause)
	}
	select {
	case <-wake:
		return nil
	case <-rested:
		return nil
	case err := <-failed:
		return driver.SentBefore(err)
	case <-w.store.calls.Ctx.Done():
		return driver.ErrStoreClosed
	case <-ctx.Done():
		return w.ended(ctx)
	}
}

// ended returns the cause of a ctx, which matches ErrUnavailable if an answer should have come before.
func (w *waiter) ended(ctx context.Context) error {
	w.store.poller.mu.Lock()
	defer w.store.poller.mu.Unlock()
	if w.failures > 0 || w.pollFailures > 0 || !w.asked.IsZero() && time.Since(w.asked) >= max(overdue, 2*w.roundTrip) {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// step sends the next request and handles its answer.
func (w *waiter) step(ctx context.Context) (granted bool, err error) {
	sent, channel := time.Now(), ""
	if l := w.store.options.Listener; l != nil {
		channel = l.Channel()
	}
	a, err := w.send(ctx, w.mustEnter(channel), channel)
	switch {
	case !errors.Is(err, driver.ErrNotSent):
		w.sent = true
		w.unanswered = w.unanswered || err != nil && !isAnswer(err)
	case w.sent: // the error of Wait is about all its requests
		err = driver.SentBefore(err)
	}
	if err != nil {
		if ctx.Err() != nil && (w.failures > 0 || time.Since(sent) >= max(overdue, 2*w.roundTrip)) { // an answer should have come
			err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		if w.failures == 0 {
			w.failingSince = sent
		}
		return false, err
	}
	w.roundTrip, w.failures = time.Since(sent), 0
	if a.granted {
		w.lease = driver.Lease{Request: w.request, Token: uint64(a.token), Sent: sent, Saved: a.saved}
		return true, nil
	}
	if w.store.queued(w, sent, a, channel) {
		w.onQueued()
	}
	return false, nil
}

// mustEnter reports whether the next request takes a place, or extends the one that the owner has.
func (w *waiter) mustEnter(channel string) bool {
	w.store.poller.mu.Lock()
	defer w.store.poller.mu.Unlock()
	return !w.entered || w.failures > 0 || w.channel != channel
}

// send sends one request. If it enters nothing, and the lock is still taken by another, it only
// reads.
func (w *waiter) send(ctx context.Context, enters bool, channel string) (answer, error) {
	s, r := w.store, w.request
	if !s.options.Pessimistic && (!enters || w.lastAnswered().IsZero()) {
		type decision struct {
			answer
			decided bool
		}
		d, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (d decision, err error) {
			if d.answer, d.decided, err = s.dialect.acquire(ctx, c, s.texts, r); err == nil {
				d.answer, err = s.withState(ctx, c, r, d.answer)
			}
			return d, err
		})
		if err != nil || d.decided && (d.granted || !enters) {
			return d.answer, err
		}
	}
	return call(ctx, s, func(ctx context.Context, c *sql.Conn) (answer, error) {
		a, err := s.ask(ctx, c, r, ms(w.place), channel)
		if err != nil {
			return a, err
		}
		return s.withState(ctx, c, r, a)
	})
}

func (w *waiter) lastAnswered() time.Time {
	w.store.poller.mu.Lock()
	defer w.store.poller.mu.Unlock()
	return w.lastAnswer
}

// extendEvery is the time between two requests that extend the place.
func (w *waiter) extendEvery() time.Duration { return w.place / pollsPerPlace }

// retryDelay is the time until a request of a queued waiter is sent again after a failure.
func (w *waiter) retryDelay() time.Duration {
	return max(min(w.place/(4*pollsPerPlace), time.Second), retryAfter)
}

// onError returns the time until the next request after a failure, or the error of Wait.
func (w *waiter) onError(ctx context.Context, err error) (time.Duration, error) {
	if isPermanent(err) || ctx.Err() != nil {
		return 0, err
	}
	w.failures++
	switch queued := !w.lastAnswered().IsZero(); {
	case !queued && w.failures == 1:
		return retryAfter, nil
	case queued && time.Since(w.failingSince) < max(w.place, w.store.options.Timeout):
		return w.retryDelay(), nil
	}
	return 0, err
}
