// Wait: the places in a queue, and the watches on them.

package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPoll      = 10 * time.Second       // between two requests of a waiter
	maxRequest   = 5 * time.Second        // without an answer
	maxTurn      = 3 * maxRequest         // of a call that others wait for
	failurePause = 200 * time.Millisecond // after a request that failed
)

// Wait implements [driver.Store]. The server keeps a place for each waiter. A waiter watches the
// place before its own, and the first one watches the lock, so a release wakes one waiter only.
// A message that is lost, or a compaction of the revision that is watched, delays a waiter until
// it asks again, after a third of its TTL or 10 s.
func (s *Store) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	ctx, end, err := s.begin(ctx, 0)
	if err != nil {
		return driver.Lease{}, err
	}
	defer end()
	w := &waiter{store: s, request: r, onQueued: queued, poll: min(r.TTL/3, maxPoll), unwatch: func() {}}
	defer func() { w.unwatch() }()
	l, err := w.wait(ctx)
	l.Unanswered = w.unanswered
	return l, err
}

// waiter is a call of Wait.
type waiter struct {
	store      *Store
	request    driver.Request
	onQueued   func() // notifies the client
	poll       time.Duration
	queued     bool // the server has answered
	sent       bool // something that the server may have executed
	unanswered bool // a request may still be executed
	failures   int  // in a row

	watched string // the key that is watched; empty: none
	events  clientv3.WatchChan
	unwatch context.CancelFunc // never nil
}

func (w *waiter) wait(ctx context.Context) (driver.Lease, error) {
	for {
		l, st, err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return driver.Lease{}, w.cancelled(ctx, err)
		case errors.Is(err, driver.ErrNotAcquired), errors.Is(err, driver.ErrWrongType), errors.Is(err, driver.ErrBadTTL):
			return driver.Lease{}, w.store.failed(ctx, "wait", err)
		case err != nil:
			if w.failures++; w.failures > 1 {
				return driver.Lease{}, w.failed(ctx, err)
			}
			_ = basic.Sleep(ctx, failurePause)
			continue
		case l.Token > 0:
			return l, nil
		}
		w.failures, w.queued, w.sent = 0, true, true
		w.onQueued()
		if st.place != nil { // otherwise it has just taken its place
			w.watch(ctx, st)
		}
	}
}

// failed returns the error of a wait whose requests have failed, or were answered after the end of ctx.
func (w *waiter) failed(ctx context.Context, err error) error {
	err = cmp.Or(err, errNoAnswer)
	if w.sent {
		err = driver.SentBefore(err)
	}
	return w.store.failed(ctx, "wait", err)
}

// cancelled returns the error after the end of ctx, during a request that returned err.
func (w *waiter) cancelled(ctx context.Context, err error) error {
	switch {
	case w.failures > 0:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, w.failed(ctx, err))
	case !w.queued:
		return w.failed(ctx, err)
	}
	return context.Cause(ctx)
}

// ask acquires the lock, or takes a place in the queue if the owner has none.
func (w *waiter) ask(ctx context.Context) (driver.Lease, standing, error) {
	bounded, cancel := context.WithTimeout(ctx, min(w.request.TTL/2, maxRequest))
	defer cancel()
	l, st, err := w.store.tryAcquire(bounded, w.request)
	if err == nil && l.Token == 0 {
		err = w.store.keepPlace(bounded, w.request, st.place)
	}
	if err == nil || errors.Is(err, driver.ErrNotAcquired) || errors.Is(err, driver.ErrWrongType) {
		return l, st, err
	}
	late, unsent := ctx.Err() == nil && bounded.Err() != nil, errors.Is(err, driver.ErrNotSent)
	if late {
		err = errNoAnswer
	}
	if unsent {
		return l, st, driver.NotSent.Error(err)
	}
	w.sent, w.unanswered = true, true
	return l, st, err
}

// keepPlace records that the owner still waits. It takes a place first if the owner has none.
func (s *Store) keepPlace(ctx context.Context, r driver.Request, has *mvccpb.KeyValue) error {
	of := s.sessionFor(r.TTL)
	id, sent, err := of.fresh(ctx, r.TTL)
	if err != nil {
		return driver.NotSent.Error(err)
	}
	var rank int64
	if has != nil {
		rank = has.CreateRevision
	} else {
		place, tomb := s.placeKey(r.Key, r.Owner), s.tombKey(r.Owner)
		answer, err := s.write(r, of, id, s.client.Txn(ctx).If(
			clientv3.Compare(clientv3.CreateRevision(tomb), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(place), "=", 0),
		).Then(
			clientv3.OpPut(place, placeOf(r.Owner, r.Metadata()), clientv3.WithLease(id)),
		).Else(clientv3.OpGet(tomb, clientv3.WithCountOnly())))
		if err != nil {
			return err
		}
		if !answer.Succeeded && answer.Responses[0].GetResponseRange().Count > 0 {
			return errGivenUp
		}
		if answer.Succeeded {
			rank = answer.Header.Revision
		}
	}
	s.hold(leaseKey{r.Key, r.Owner}, of, sent.Add(r.TTL), 0, rank)
	return nil
}

// watch returns when what is before the waiter has gone, when it must ask again, or when ctx ends. The
// watch goes on between the calls, because a server with passwords takes long to begin one.
func (w *waiter) watch(ctx context.Context, st standing) {
	key := w.store.lockKey(w.request.Key)
	switch {
	case st.before != nil:
		key = string(st.before.Key)
	case st.lock == nil:
		return // the lock has become free
	}
	if w.watched != key {
		w.unwatch()
		watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
		// The watch begins at the present revision. A server that has to look for older events does so
		// every 100 ms only.
		w.events = w.store.client.Watch(watching, key, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
		w.watched, w.unwatch = key, stop
	}
	poll := time.NewTimer(w.poll)
	defer poll.Stop()
	for {
		select {
		case answer, open := <-w.events:
			switch {
			case !open || answer.Err() != nil: // a compaction, or a member without a leader: ask again
				w.unwatch()
				w.watched = ""
				_ = basic.Sleep(ctx, failurePause)
				return
			case len(answer.Events) > 0:
				return
			case answer.Created && answer.Header.Revision > st.revision && !w.store.exists(ctx, key):
				return // it has gone before the watch began
			}
		case <-poll.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Watch implements [driver.Store]. It watches the queue of the lock.
func (s *Store) Watch(l driver.Lease, wanted func()) (stop func()) {
	ctx, stop := context.WithCancel(s.calls.Ctx)
	if l.Mode != driver.Exclusive || !s.calls.Enter() {
		return stop
	}
	go func() {
		defer s.calls.Leave()
		for ctx.Err() == nil {
			if s.awaitPlace(ctx, s.queueKeys(l.Key)) {
				wanted()
				return
			}
			_ = basic.Sleep(ctx, failurePause)
		}
	}()
	return stop
}

// awaitPlace returns true when a queue has a place, and false if the watch fails, after a compaction for example.
func (s *Store) awaitPlace(ctx context.Context, queue string) bool {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	for answer := range s.client.Watch(ctx, queue, clientv3.WithPrefix(), clientv3.WithCreatedNotify(), clientv3.WithFilterDelete()) {
		switch {
		case answer.Err() != nil:
			return false
		case len(answer.Events) > 0, answer.Created && s.exists(ctx, queue, clientv3.WithPrefix()): // before the watch began
			return true
		}
	}
	return false
}

// exists reports whether the server has a key, or one in the range of the options, as far as it answers.
func (s *Store) exists(ctx context.Context, key string, options ...clientv3.OpOption) bool {
	ctx, cancel := context.WithTimeout(ctx, maxRequest)
	defer cancel()
	answer, err := s.client.Get(ctx, key, append(options, clientv3.WithCountOnly())...)
	return err == nil && answer.Count > 0
}
