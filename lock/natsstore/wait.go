// Wait, and the messages that announce releases.

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	firstPoll  = 50 * time.Millisecond  // before the next request for a lock whose lease should have ended
	lastPoll   = 2 * time.Second        // between two requests of a waiter that gets no message
	maxRequest = 2 * time.Second        // for the answers to one attempt
	retryPause = 200 * time.Millisecond // after an attempt that failed
	tolerance  = 5 * time.Second        // a waiter fails after this time without an answer
	overdue    = 100 * time.Millisecond // an answer should have come by then
)

// Wait implements [driver.Store]. It tries, subscribes to the releases of the lock, and tries again
// after each of them. A message may be lost, and a lease may end without one. So it also tries when
// the lease that was reported to it has ended, and at least every two seconds.
//
// Wait returns an error if its first two attempts fail, or if the server does not answer for 5
// seconds.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if err := s.begin(ctx, r.Mode); err != nil {
		return driver.Lease{}, err
	}
	w := &waiter{store: s, request: r, onQueued: queued, wake: make(chan struct{}, 1)}
	defer w.leave()
	l, err := w.wait(ctx)
	if err == nil {
		bounded, cancel := bound(ctx, min(maxRequest, s.bound))
		defer cancel()
		if got, err := s.withState(bounded, l); err == nil { // otherwise the client calls Acquire for it
			l = got
		}
	}
	l.Unanswered = w.unanswered
	return l, err
}

// waiter is a call of Wait.
type waiter struct {
	store    *Store
	request  driver.Request
	onQueued func()             // notifies the client
	wake     chan struct{}      // holds an element after a release
	releases *nats.Subscription // nil until the lock was found taken

	granted    atomic.Bool
	queued     bool      // the server has answered that the lock is taken
	unanswered bool      // a request may still be executed
	failing    time.Time // the first failure in a row
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	for {
		began := time.Now()
		l, err := w.try(ctx)
		var taken *driver.HeldError
		pause := retryPause
		switch {
		case err == nil:
			w.granted.Store(true)
			return l, nil
		case errors.As(err, &taken):
			w.failing = time.Time{}
			w.ask() // the next try repeats it
			pause = min(max(taken.ExpiresIn, firstPoll), w.store.poll)
			if !w.queued {
				w.queued = true
				w.onQueued()
			}
			if w.releases == nil && w.listen() {
				continue // the lock may have been released before
			}
		default:
			if err := w.failed(ctx, err, began); err != nil {
				return driver.Lease{}, err
			}
		}
		if err := w.sleep(ctx, pause); err != nil {
			return driver.Lease{}, err
		}
	}
}

// try is Acquire within a bounded time. Once the owner has found the lock taken, it reads the lock
// before it publishes anything.
func (w *waiter) try(ctx context.Context) (driver.Lease, error) {
	bounded, cancel := bound(ctx, min(maxRequest, w.store.bound))
	defer cancel()
	if err := w.store.begin(bounded, w.request.Mode); err != nil {
		return driver.Lease{}, err
	}
	if !w.queued {
		return w.store.acquire(bounded, w.request, entry{})
	}
	cur, err := w.store.last(bounded, w.request.Key)
	if err != nil {
		return driver.Lease{}, err
	}
	switch {
	case cur.heldBy(w.request.Owner): // by a request without an answer, which acquire looks for
		cur = entry{}
	case !cur.isFree():
		return driver.Lease{}, &driver.HeldError{Key: w.request.Key, ExpiresIn: cur.left(w.store.serverNow(bounded))}
	}
	return w.store.acquire(bounded, w.request, cur)
}

// failed returns the error that ends the wait after an attempt has failed, nil to try again.
func (w *waiter) failed(ctx context.Context, err error, began time.Time) error {
	if driver.VerdictOf(err).IsFinal() {
		return err
	}
	first := w.failing.IsZero()
	if first {
		w.failing = began
	}
	w.unanswered = w.unanswered || !errors.Is(err, errNoServer)
	switch {
	case ctx.Err() != nil && w.queued && first && time.Since(began) < overdue:
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, because(w.store.js, w.store.of, context.Cause(ctx)))
	case !w.queued && !first, time.Since(w.failing) >= tolerance:
		if !w.queued && !w.unanswered { // all its requests count
			err = notSent(err)
		}
		return w.store.failed(ctx, "wait", err)
	}
	return nil
}

// sleep returns after a release, after the pause, or with an error at the end of ctx or the store.
func (w *waiter) sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		if !w.failing.IsZero() {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
		}
		return context.Cause(ctx)
	case <-w.store.calls.Ctx.Done():
		return driver.ErrStoreClosed
	case <-w.wake:
	case <-time.After(pause):
	}
	return nil
}

// listen subscribes to the releases of the lock. A request that is sent afterwards on the connection
// reaches the server after the subscription. It reports whether it has subscribed; otherwise the
// waiter polls, and subscribes later.
func (w *waiter) listen() bool {
	of, err := w.store.js.Conn().Subscribe(w.store.releases(w.request.Key), func(m *nats.Msg) {
		if len(m.Data) > 0 {
			if !w.granted.Load() {
				w.ask() // a new holder wants to know
			}
			return
		}
		select {
		case w.wake <- struct{}{}:
		default: // it is about to try
		}
	})
	if err != nil {
		return false
	}
	w.releases = of
	return true
}

// ask notifies the holder that the waiter waits.
func (w *waiter) ask() { _ = w.store.js.Conn().Publish(w.store.asks(w.request.Key), nil) }

// Watch implements [driver.Store]. Waiters send a message with each try, and when a new holder asks for it.
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	of, err := s.js.Conn().Subscribe(s.asks(l.Key), func(*nats.Msg) { wanted() })
	if err != nil { // the connection is closed
		return func() {}
	}
	_ = s.js.Conn().Publish(s.releases(l.Key), []byte("?"))
	return func() { _ = of.Unsubscribe() }
}

// leave ends listen.
func (w *waiter) leave() {
	if w.releases != nil {
		_ = w.releases.Unsubscribe() // it fails only if the connection is closed
	}
}

// announced wakes the waiters of a lock if err, which it returns, is nil. It neither waits nor reports whether the
// message arrives, because waiters poll, too.
func (s *Store) announced(key string, err error) error {
	if err == nil {
		_ = s.js.Conn().Publish(s.releases(key), nil)
	}
	return err
}
