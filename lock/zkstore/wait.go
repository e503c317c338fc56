// Wait, and the watches on nodes.

package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPoll      = 10 * time.Second       // between two requests of a waiter
	maxRequest   = 5 * time.Second        // without an answer
	failurePause = 200 * time.Millisecond // after a request that failed
)

// Wait implements [driver.Store]. A waiter watches the node before its own, so a release wakes one
// waiter only. A reader watches the writer before it, so a writer wakes the readers that follow it,
// together. A waiter also asks again after a third of its TTL or 10 s. A waiter whose session expires
// starts again at the end of the queue.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	ctx, end, err := s.calls.Begin(ctx, 0)
	if err != nil {
		return driver.Lease{}, err
	}
	defer end()
	w := &waiter{store: s, request: r, onQueued: queued, poll: min(r.TTL/3, maxPoll)}
	l, err := w.wait(ctx)
	l.Unanswered = w.unanswered
	return l, err
}

// waiter is a call of Wait.
type waiter struct {
	store      *Store
	client     *client // that has asked last
	request    driver.Request
	onQueued   func() // notifies the client
	poll       time.Duration
	unanswered bool // a request may still be executed
	failures   int  // in a row
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	for {
		l, next, err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return driver.Lease{}, w.cancelled(ctx)
		case errors.Is(err, driver.ErrNotAcquired), errors.Is(err, driver.ErrWrongType):
			return driver.Lease{}, w.store.failed(ctx, "wait", err)
		case err != nil:
			if w.failures++; w.failures > 1 {
				return driver.Lease{}, w.store.failed(ctx, "wait", err)
			}
			_ = basic.Sleep(ctx, failurePause)
			continue
		case l.Token > 0:
			return l, nil
		}
		w.failures = 0
		w.onQueued()
		w.watch(ctx, next)
	}
}

// cancelled returns the error after the end of ctx.
func (w *waiter) cancelled(ctx context.Context) error {
	if w.failures > 0 {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, w.store.first().link.explain(context.Cause(ctx)))
	}
	return context.Cause(ctx)
}

// ask takes a place in the queue if the owner has none, and the lock if the place holds it. Otherwise
// it returns the node that must go before.
func (w *waiter) ask(ctx context.Context) (driver.Lease, node, error) {
	timeout := min(w.request.TTL/2, maxRequest)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var l driver.Lease
	var next node
	err := w.store.withRoom(bounded, w.request, func(c *client) (err error) {
		w.client = c
		l, next, err = c.takePlace(bounded, w.request)
		return err
	})
	if err != nil && !errors.Is(err, driver.ErrNotAcquired) && !errors.Is(err, driver.ErrWrongType) {
		w.unanswered = true
		if ctx.Err() == nil && bounded.Err() != nil {
			err = driver.NoAnswerError(timeout)
		}
	}
	return l, next, err
}

func (s *client) takePlace(ctx context.Context, r driver.Request) (driver.Lease, node, error) {
	for range attempts {
		start := time.Now()
		all, err := s.nodesFor(ctx, r)
		switch {
		case err != nil:
			return driver.Lease{}, node{}, err
		case s.isGivenUp(r.Owner):
			return driver.Lease{}, node{}, errGivenUp
		}
		own := find(all, r.Owner)
		if own < 0 && s.isWorn(all) {
			return driver.Lease{}, all[len(all)-1], nil
		}
		if own < 0 {
			if _, err := s.create(ctx, r, start); err != nil {
				return driver.Lease{}, node{}, err
			}
			continue
		}
		next := before(all, own, all[own].mode)
		if next < 0 {
			l, err := s.again(ctx, r, all, own)
			return l, node{}, err
		}
		path := s.lockPath(r.Key) + "/" + all[own].name
		if !s.hold(leaseKey{r.Key, r.Owner}, path, start.Add(r.TTL)) {
			return driver.Lease{}, node{}, errEndedMeanwhile
		}
		return driver.Lease{}, all[next], nil
	}
	return driver.Lease{}, node{}, errEndedMeanwhile
}

// watch returns when a node has gone or its data has changed, when the waiter must ask again, or when
// ctx ends.
func (w *waiter) watch(ctx context.Context, n node) {
	path := w.store.lockPath(w.request.Key) + "/" + n.name
	bounded, cancel := context.WithTimeout(ctx, w.poll)
	changed, err := w.client.watch(bounded, path, n.version)
	cancel()
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return
	case err != nil:
		_ = basic.Sleep(ctx, min(failurePause, w.poll))
		return
	}
	select {
	case <-changed:
	case <-time.After(w.poll):
	case <-ctx.Done():
	}
}

// watch returns a channel that is closed after a change of a node. A node has one watch, however many
// waiters give up, because a watch ends only with its node. A watch that is there has seen all changes
// since the caller has read the node. The version is that of its data, or noVersion.
func (s *client) watch(ctx context.Context, path string, version int32) (<-chan zk.Event, error) {
	s.mu.Lock()
	s.dropWatches()
	changed := s.watches[path]
	s.mu.Unlock()
	if changed != nil {
		return changed, nil
	}
	return ask(ctx, s.link, func(c *zk.Conn) (<-chan zk.Event, error) {
		_, stat, changed, err := c.GetW(path) // unlike ExistsW, it leaves no watch if there is no node
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.watches[path] = changed
		s.mu.Unlock()
		if version != noVersion && version != stat.Version {
			return nil, zk.ErrBadVersion
		}
		return changed, nil
	})
}

// Watch implements [driver.Store]. It watches the children of the lock, and looks at them at most five times a second.
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	ctx, stop := context.WithCancel(s.calls.Ctx)
	if _, ok := letters[l.Mode]; !ok || !s.calls.Enter() {
		return stop
	}
	go func() {
		defer s.calls.Leave()
		var changed <-chan zk.Event // of a watch that has not fired; another one would not replace it
		for ctx.Err() == nil {
			c, err := s.clientOf(leaseKey{l.Key, l.Owner}), error(nil)
			if changed == nil {
				changed, err = ask(ctx, c.link, func(conn *zk.Conn) (<-chan zk.Event, error) {
					_, _, changed, err := conn.ChildrenW(s.lockPath(l.Key))
					return changed, err
				})
			}
			all, failure := c.lockNodes(ctx, l.Key)
			var again <-chan time.Time
			switch {
			case err != nil || failure != nil:
				again = time.After(failurePause)
			case holders(all) < len(all):
				wanted()
				return
			}
			select {
			case <-changed:
				changed = nil
			case <-again:
			case <-ctx.Done():
			}
			_ = basic.Sleep(ctx, failurePause)
		}
	}()
	return stop
}

// dropWatches forgets the watches that have reported a change. mu is locked.
func (s *client) dropWatches() {
	for path, changed := range s.watches {
		select {
		case <-changed:
			delete(s.watches, path)
		default:
		}
	}
}
