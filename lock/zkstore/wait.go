package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPoll      = 10 * time.Second       // between two requests of a waiter
	maxRequest   = 5 * time.Second        // without an answer
	failurePause = 200 * time.Millisecond // after a request that failed
)

// Wait implements [driver.Waiter]. A waiter watches the node before its own, so a release wakes one
// waiter only. It also asks again after a third of its TTL or 10 s. A waiter whose session expires
// starts again at the end of the queue.
func (s *Store) Wait(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return driver.Lease{}, err
	}
	defer end()
	w := &waiter{store: s, request: r, poll: min(r.TTL/3, maxPoll)}
	l, err := w.wait(ctx)
	l.Unanswered = w.unanswered
	return l, err
}

// waiter is a call of Wait.
type waiter struct {
	store      *Store
	request    driver.Request
	poll       time.Duration
	unanswered bool // a request may still be executed
	failures   int  // in a row

	watched string // the path that is watched
	gone    <-chan zk.Event
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	for {
		l, before, err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return driver.Lease{}, w.cancelled(ctx)
		case errors.Is(err, driver.ErrNotAcquired), errors.Is(err, driver.ErrWrongType):
			return driver.Lease{}, failed(ctx, "wait for", w.request.Key, err)
		case err != nil:
			if w.failures++; w.failures > 1 {
				return driver.Lease{}, failed(ctx, "wait for", w.request.Key, err)
			}
			pause(ctx, failurePause)
			continue
		case l.Token > 0:
			return l, nil
		}
		w.failures = 0
		driver.Queued(ctx)
		w.watch(ctx, before)
	}
}

// cancelled returns the error after the end of ctx.
func (w *waiter) cancelled(ctx context.Context) error {
	if w.failures > 0 {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// ask takes a place in the queue if the owner has none, and the lock if the place is the first one.
// It returns the path of the node before.
func (w *waiter) ask(ctx context.Context) (driver.Lease, string, error) {
	bounded, cancel := context.WithTimeout(ctx, min(w.request.TTL/2, maxRequest))
	defer cancel()
	l, before, err := w.store.takePlace(bounded, w.request)
	if err != nil && !errors.Is(err, driver.ErrNotAcquired) && !errors.Is(err, driver.ErrWrongType) {
		w.unanswered = true
		if ctx.Err() == nil && bounded.Err() != nil {
			err = errors.New("no answer in time")
		}
	}
	return l, before, err
}

func (s *Store) takePlace(ctx context.Context, r driver.Request) (driver.Lease, string, error) {
	for range attempts {
		start := time.Now()
		all, err := s.lockNodes(ctx, r.Key)
		switch {
		case err != nil:
			return driver.Lease{}, "", err
		case s.isGivenUp(r.Owner):
			return driver.Lease{}, "", errGivenUp
		}
		own := find(all, r.Owner)
		if own < 0 {
			if _, err := s.create(ctx, r, start); err != nil {
				return driver.Lease{}, "", err
			}
			continue
		}
		path := s.lockPath(r.Key) + "/" + all[own].name
		if own == 0 {
			l, err := s.confirm(ctx, r, path)
			return l, "", err
		}
		if s.isDying(path) {
			return driver.Lease{}, "", errEndedMeanwhile
		}
		s.hold(leaseKey{r.Key, r.Owner}, path, start.Add(r.TTL))
		return driver.Lease{}, s.lockPath(r.Key) + "/" + all[own-1].name, nil
	}
	return driver.Lease{}, "", errEndedMeanwhile
}

// watch returns when the node before the waiter has gone, when the waiter must ask again, or when
// ctx ends.
func (w *waiter) watch(ctx context.Context, before string) {
	if w.watched != before {
		type answer struct {
			exists bool
			gone   <-chan zk.Event
		}
		bounded, cancel := context.WithTimeout(ctx, w.poll)
		a, err := ask(bounded, w.store.link, func(c *zk.Conn) (answer, error) {
			exists, _, gone, err := c.ExistsW(before)
			return answer{exists, gone}, err
		})
		cancel()
		if err != nil {
			pause(ctx, min(failurePause, w.poll))
			return
		}
		if !a.exists {
			return
		}
		w.watched, w.gone = before, a.gone
	}
	timer := time.NewTimer(w.poll)
	defer timer.Stop()
	select {
	case <-w.gone:
		w.watched = ""
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pause sleeps, or returns when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
