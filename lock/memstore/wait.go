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

	// wake tells it to look again: it has got the lock, or is the first of the queue,
	// who watches for the ends of leases.
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
	k := s.open(w.request, now)
	if h := s.take(k, w.request, now); h != nil {
		return lock.Lease{Request: w.request, Token: h.token, Sent: now}, 0, nil
	}
	if w.place == nil {
		k.enqueue(w)
	}
	if w.place.Prev() != nil {
		return lock.Lease{}, math.MaxInt64, nil
	}
	return lock.Lease{}, k.first(now), nil
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

// quit takes a waiter out of its queue, and lets those behind it have what it kept
// them from. A lock that it has got by now is left to Release.
func (s *Store) quit(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.keys[w.request.Key]; k != nil && w.place != nil {
		k.dequeue(w)
		k.watch()
	}
}

// serve hands over what the holders leave free: in order, up to the first who is
// kept waiting; to batches in order as far as they want the same members. The
// caller holds mu.
func (s *Store) serve(k *state, now time.Time) {
	var claimed map[string]bool // members, by those who are kept waiting
	served := false
	for place := k.queue.Front(); place != nil; {
		w := place.Value.(*waiter)
		place = place.Next()
		switch members := w.request.Members(); {
		case k.fits(w.request) && !anyOf(members, claimed):
			k.dequeue(w)
			s.grant(k, w.request, now)
			w.rouse()
			served = true
		case k.family != lock.Members:
			place = nil
		default:
			if claimed == nil {
				claimed = make(map[string]bool, len(members))
			}
			for _, m := range members {
				claimed[m] = true
			}
		}
	}
	if served {
		k.watch()
	}
}

// watch wakes the first of the queue, who sleeps until one of the leases ends: it may be
// another waiter now, or there are other leases.
func (k *state) watch() {
	if first := k.queue.Front(); first != nil {
		first.Value.(*waiter).rouse()
	}
}

func anyOf(members []string, of map[string]bool) bool {
	for _, m := range members {
		if of[m] {
			return true
		}
	}
	return false
}

// enqueue gives a waiter the last place.
func (k *state) enqueue(w *waiter) {
	w.place = k.queue.PushBack(w)
	if members := w.request.Members(); len(members) > 0 && k.wanted == nil {
		k.wanted = make(map[string]int, len(members))
	}
	for _, m := range w.request.Members() {
		k.wanted[m]++
	}
	k.watch() // a lease that it waits for may be one that the first has not seen
}

// dequeue takes a waiter out of the queue.
func (k *state) dequeue(w *waiter) {
	k.queue.Remove(w.place)
	w.place = nil
	for _, m := range w.request.Members() {
		if k.wanted[m]--; k.wanted[m] == 0 {
			delete(k.wanted, m)
		}
	}
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
	if k := s.keys[key]; k != nil {
		return k.queue.Len()
	}
	return 0
}
