package memstore

import (
	"context"
	"math"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.Waiter = (*Store)(nil)

// Wait implements [driver.Waiter]. A waiter stays in the queue until it has the lock, or
// ctx ends.
func (s *Store) Wait(ctx context.Context, r driver.Request) (driver.Lease, error) {
	w := &waiter{request: r, wakeup: make(chan struct{}, 1)}
	granted := false
	defer func() {
		if !granted { // also if Queued has panicked
			s.cancelWait(w)
		}
	}()
	for {
		l, rest, err := s.tryOrQueue(ctx, w)
		if err != nil {
			return driver.Lease{}, err
		}
		if rest == 0 {
			granted = true
			return l, nil
		}
		driver.Queued(ctx)
		w.sleep(ctx, rest)
	}
}

// tryOrQueue acquires the lock if it can, and otherwise enqueues the waiter. It returns
// the longest time that the waiter may sleep, which is 0 if it has the lock.
func (s *Store) tryOrQueue(ctx context.Context, w *waiter) (driver.Lease, time.Duration, error) {
	k, now, err := s.lockFor(ctx, w.request)
	if err != nil {
		return driver.Lease{}, 0, err
	}
	defer s.unlock(k)
	if !w.queued {
		if h := s.tryAcquire(k, w.request, now); h != nil {
			return driver.Lease{Request: w.request, Token: h.token, Sent: now}, 0, nil
		}
		k.enqueue(w)
	}
	if k.head != w {
		return driver.Lease{}, math.MaxInt64, nil
	}
	k.timedWaiter, k.timedUntil = w, k.holders.ends.first.until
	return driver.Lease{}, k.timedUntil.Sub(now), nil
}

// sleep blocks until the waiter is woken, the timeout has passed, or ctx has ended.
func (w *waiter) sleep(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.wakeup:
	case <-timer.C:
	}
}

// cancelWait removes a waiter from its queue and serves the waiters behind it. If the
// waiter has acquired the lock already, the lock stays until Release.
func (s *Store) cancelWait(w *waiter) {
	k, _, _ := s.lock(w.request.Key, 0)
	if k == nil {
		return
	}
	defer s.unlock(k)
	if w.queued {
		k.dequeue(w, nil)
	}
}

// Waiting returns the number of waiters for a lock.
func (s *Store) Waiting(key string) int {
	k, _, _ := s.lock(key, 0)
	if k == nil {
		return 0
	}
	defer s.unlock(k)
	return k.n
}
