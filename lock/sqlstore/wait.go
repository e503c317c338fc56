package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	pollsPerPlace = 3                      // a place survives the loss of two requests
	retryAfter    = 10 * time.Millisecond  // the delay before the first request is sent again
	overdue       = 100 * time.Millisecond // a request without an answer is normal for so long
	expiryDelay   = 2 * time.Millisecond   // a lease that has expired may be granted after that
)

var _ driver.Waiter = (*Store)(nil)

// Wait implements [driver.Waiter]. If the lock is taken, Wait appends the owner to the queue of
// the lock. The place there lasts for 10 s after each request that extends it, or for one TTL if
// that is shorter, and is extended three times in that time. A release grants the lock to the
// first live place, for the rest of that place. A waiter learns of it from Options.Listener,
// from another call of the same Store, or by reading the row every Options.PollInterval. Then it
// asks for the full TTL.
//
// Wait returns an error if its first two requests fail. Once it is queued, it returns an error
// if a request fails and no answer has come for as long as a place lasts.
func (s *Store) Wait(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := checkRequest(r); err != nil {
		return driver.Lease{}, err
	}
	if err := cause(ctx); err != nil {
		return driver.Lease{}, err
	}
	w := &waiter{store: s, request: r, place: min(place, r.TTL), wake: make(chan struct{}, 1)}
	s.addWaiter(w)
	defer s.removeWaiter(w)
	if l := s.options.Listener; l != nil {
		defer l.Subscribe(messageFor(r.Owner), w.wakeUp)()
	}
	err := w.wait(ctx)
	if err != nil {
		err = failed("wait for", r.Key, err)
		if !w.sent {
			err = notSentError{err}
		}
		return driver.Lease{Unanswered: w.unanswered}, err
	}
	w.lease.Unanswered = w.unanswered
	return w.lease, nil
}

// waiter is one call of Wait. It sends one request at a time.
//
//	request   in the queue           effect
//	enter     no                     grants the lock, or takes a place
//	extend    three times a place    the same, and the place lasts longer
//	poll      in between             grants the lock if it was handed over; otherwise only reads
type waiter struct {
	store   *Store
	request driver.Request
	place   time.Duration // the length of the place
	wake    chan struct{} // has an element if a message has come

	queued     bool // a request was answered: the owner has a place
	ahead      int  // live places before it, by the latest answer
	lease      driver.Lease
	sent       bool          // some request may have reached the database
	unanswered bool          // the database may still execute a request
	failures   int           // of requests in a row
	lastAnswer time.Time     // when the latest answer came
	lastExtend time.Time     // when the latest request was sent that extends the place
	roundTrip  time.Duration // of the latest answered request
	left       time.Duration // until the lease in the way expires, counted from lastAnswer
	channel    string        // on which the owner is told, by its place
}

// addWaiter makes the messages of this process for the owner arrive.
func (s *Store) addWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[w.request.Owner] = w.wake
}

func (s *Store) removeWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters[w.request.Owner] == w.wake {
		delete(s.waiters, w.request.Owner)
	}
}

// wakeUp makes the waiters of this process ask.
func (s *Store) wakeUp(owners []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, owner := range owners {
		if wake, ok := s.waiters[owner]; ok {
			signal(wake)
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
	woken := false
	for {
		granted, err := w.step(ctx, woken)
		if granted {
			return nil
		}
		pause := w.pause()
		if err != nil {
			if pause, err = w.onError(ctx, err); err != nil {
				return err
			}
		}
		if woken, err = w.sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// sleep waits for a message or for some time. It reports whether a message has come.
func (w *waiter) sleep(ctx context.Context, d time.Duration) (woken bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.wake:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-w.store.calls.ctx.Done():
		return false, driver.ErrStoreClosed
	case <-ctx.Done():
		if w.failures > 0 {
			return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
		}
		return false, context.Cause(ctx)
	}
}

// step sends the next request and handles its answer.
func (w *waiter) step(ctx context.Context, woken bool) (granted bool, err error) {
	sent := time.Now()
	extends := !w.queued || w.failures > 0 || sent.Sub(w.lastExtend) >= w.extendEvery()
	channel := ""
	if l := w.store.options.Listener; l != nil {
		channel = l.Channel()
		extends = extends || channel != w.channel
	}
	a, err := w.send(ctx, extends, woken, channel)
	switch {
	case !errors.As(err, new(notSentError)):
		w.sent = true
		w.unanswered = w.unanswered || err != nil && !isAnswer(err)
	case w.sent: // the error of Wait is about all its requests
		err = withoutNotSent(err)
	}
	if err != nil {
		w.overdueError(ctx, sent, &err)
		return false, err
	}
	w.lastAnswer, w.failures = time.Now(), 0
	w.roundTrip = w.lastAnswer.Sub(sent)
	if a.granted {
		w.lease = driver.Lease{Request: w.request, Token: uint64(a.token), Sent: sent}
		return true, nil
	}
	w.left = time.Duration(a.left) * time.Millisecond
	if a.guarded { // nobody tells that the transaction has ended
		w.left = w.store.options.PollInterval
	}
	if a.entered {
		w.lastExtend, w.ahead, w.channel = sent, a.ahead, channel
		if !w.queued {
			w.queued = true
			driver.Queued(ctx)
		}
	}
	return false, nil
}

// send sends one request. If it extends nothing, and the lock is still taken by another, it only
// reads.
func (w *waiter) send(ctx context.Context, extends, woken bool, channel string) (answer, error) {
	s, r := w.store, w.request
	return call(ctx, s, func(ctx context.Context, c *sql.Conn) (answer, error) {
		switch {
		case s.options.Pessimistic && !extends && !woken:
			a, taken, err := s.peek(ctx, c, r)
			if err != nil || taken {
				return a, err
			}
		case !s.options.Pessimistic && (!extends || !w.queued):
			a, decided, err := s.dialect.acquire(ctx, c, s.texts, r)
			if err != nil || decided && (a.granted || !extends) {
				return a, err
			}
		}
		return s.ask(ctx, c, r, ms(w.place), channel)
	})
}

// peek reads whether the lock is taken by another owner.
func (s *Store) peek(ctx context.Context, c *sql.Conn, r driver.Request) (a answer, taken bool, err error) {
	err = c.QueryRowContext(ctx, s.texts.seen, []byte(r.Key), []byte(r.Owner)).Scan(&a.left)
	if errors.Is(err, sql.ErrNoRows) {
		return answer{}, false, nil
	}
	a.left = max(a.left, 1)
	return a, err == nil, err
}

// extendEvery is the time between two requests that extend the place.
func (w *waiter) extendEvery() time.Duration { return w.place / pollsPerPlace }

// pause returns the time until the next request: when the place must be extended, when the lease
// in the way expires, if this is the first waiter, or at the next poll. It is random, so that
// waiters that came at the same time do not ask at the same time.
func (w *waiter) pause() time.Duration {
	pause := time.Until(w.lastExtend.Add(w.extendEvery()))
	if w.channel == "" {
		pause = min(pause, w.store.options.PollInterval*time.Duration(min(w.ahead+1, 10_000)))
	}
	pause = max(pause-rand.N(max(pause/10, 0)+1), 0)
	if w.ahead == 0 {
		pause = min(pause, w.left+expiryDelay)
	}
	return pause
}

// onError returns the time until the next request after a failure, or the error of Wait.
func (w *waiter) onError(ctx context.Context, err error) (time.Duration, error) {
	if isPermanent(err) || ctx.Err() != nil {
		return 0, err
	}
	w.failures++
	switch {
	case !w.queued && w.failures == 1:
		return retryAfter, nil
	case w.queued && time.Since(w.lastAnswer) < max(w.place, w.store.options.Timeout):
		return max(min(w.place/(4*pollsPerPlace), time.Second), retryAfter), nil
	}
	return 0, err
}

// overdueError makes the error of a request match ErrUnavailable if ctx has ended although an
// answer should have come by then.
func (w *waiter) overdueError(ctx context.Context, sent time.Time, err *error) {
	if ctx.Err() != nil && (w.failures > 0 || time.Since(sent) >= max(overdue, 2*w.roundTrip)) {
		*err = fmt.Errorf("%w: %w", driver.ErrUnavailable, *err)
	}
}
