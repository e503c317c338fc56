package memstore

import (
	"container/list"
	"context"
	"math"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

var _ lock.Waiter = (*Store)(nil)

// waiter is a call of Wait that has no lock yet.
type waiter struct {
	request lock.Request
	place   *list.Element // in its queue, nil if it is in none

	// wake tells it to look again: it has got the lock, or has become the first of
	// the queue, who watches for the end of the lease.
	wake chan struct{}
}

// Wait implements [lock.Waiter]. A waiter cannot die here, so its place lasts.
func (s *Store) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	w := &waiter{request: r, wake: make(chan struct{}, 1)}
	for {
		l, rest, err := s.look(ctx, w)
		if err != nil || rest == 0 {
			s.quit(w)
			return l, err
		}
		w.sleep(ctx, rest)
	}
}

// look takes the lock if it can, or a place in the queue. It returns how long the
// waiter may sleep then unless it is woken, 0 if it has got the lock.
func (s *Store) look(ctx context.Context, w *waiter) (lock.Lease, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err := s.refuse(ctx, w.request, now); err != nil {
		return lock.Lease{}, 0, err
	}
	held, ok := s.take(w.request, now)
	if ok {
		return lock.Lease{Request: w.request, Token: held.token, Sent: now}, 0, nil
	}
	if w.place == nil {
		s.enqueue(w)
	}
	if w.place.Prev() != nil {
		return lock.Lease{}, math.MaxInt64, nil
	}
	return lock.Lease{}, held.until.Sub(now), nil
}

// enqueue gives a waiter the last place. The caller holds mu.
func (s *Store) enqueue(w *waiter) {
	queue := s.queues[w.request.Key]
	if queue == nil {
		queue = list.New()
		s.queues[w.request.Key] = queue
	}
	w.place = queue.PushBack(w)
}

// sleep returns when the waiter is woken, when the time has passed, or when ctx has
// ended.
func (w *waiter) sleep(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-timer.C:
	}
}

// quit takes a waiter out of its queue. A lock that it has got by now is left to
// Release.
func (s *Store) quit(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(w)
}

// remove takes a waiter out of its queue, if it is in it, and wakes the first there
// is then. The caller holds mu.
func (s *Store) remove(w *waiter) {
	queue := s.queues[w.request.Key]
	if w.place == nil || queue == nil {
		return
	}
	queue.Remove(w.place)
	w.place = nil
	if first := queue.Front(); first != nil {
		first.Value.(*waiter).rouse()
	} else {
		delete(s.queues, w.request.Key)
	}
}

// advance hands a lock that is free to the first of its queue. The caller holds mu.
func (s *Store) advance(key string, now time.Time) {
	queue := s.queues[key]
	if _, ok := s.alive(key, now); ok || queue == nil {
		return
	}
	w := queue.Front().Value.(*waiter)
	s.remove(w)
	s.grant(w.request, now)
	w.rouse()
}

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Waiting returns the number of those that wait for a lock.
func (s *Store) Waiting(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if queue := s.queues[key]; queue != nil {
		return queue.Len()
	}
	return 0
}
