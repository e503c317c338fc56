// The list of callers that wait for a due value, and why no wake-up is
// lost.

package heapqueue

import (
	"context"
	"time"
)

// Callers of Pop wait in a list. Only the first, the leader, sets the timer; the others
// sleep until they lead. A caller that leaves the list wakes the next leader, so one
// value wakes one caller. (This is the Leader/Followers pattern of Schmidt, O'Ryan,
// Kircher, Pyarali and Buschmann, 2000.)
//
// No wake-up is lost:
//
//   - The leader looks at the items and sets wakeAt, the instant at which it wakes,
//     in one critical section. A caller that adds an earlier instant does so in a later
//     critical section, sees that the leader would wake too late, and wakes it.
//   - A wake-up is a token in a channel of capacity one, sent with mu held. The waiter
//     that receives it locks mu and looks again, so it sees what the token was sent
//     for. A token only means "look again", so a needless one does no harm.
//   - A caller whose context ends leaves the list in one critical section, as in
//     golang.org/x/sync/semaphore. It drops a token that it has not received. If it
//     was the leader, it wakes the next one in the same critical section.
//
// A new instant is compared with wakeAt and not with the earliest item. A timer that
// fires early, because its item was removed, does no harm, and items that come and go
// do not wake the leader each time.

// waiterList is the list of waiting callers, first come, first served.
type waiterList struct {
	first, last *waiter
	free        *waiter // waiters for reuse, linked by next
	freeLen     int     // number of free waiters
}

// maxFreeWaiters bounds the memory that a burst of callers leaves behind.
const maxFreeWaiters = 64

type waiter struct {
	wake       chan struct{} // capacity 1
	prev, next *waiter
}

// add appends a waiter to the list.
func (l *waiterList) add() *waiter {
	w := l.free
	if w == nil {
		w = &waiter{wake: make(chan struct{}, 1)}
	} else {
		l.free = w.next
		l.freeLen--
	}
	w.prev, w.next = l.last, nil
	if w.prev == nil {
		l.first = w
	} else {
		w.prev.next = w
	}
	l.last = w
	return w
}

// remove removes w from the list and drops a token that w has not received.
func (l *waiterList) remove(w *waiter) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	select {
	case <-w.wake:
	default:
	}
	w.prev, w.next = nil, nil
	if l.freeLen < maxFreeWaiters {
		w.next, l.free = l.free, w
		l.freeLen++
	}
}

// signal makes w look at the items again. It does nothing if a token is there already.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// The methods below are called with q.mu held. awaitDue and wait release it while they
// wait.

// awaitDue waits until a value is due. The caller has read the clock as now. Without an
// error, the caller pops a value and then calls leave with the waiter, so that leave sees
// which values are left. The waiter is nil if a value was due at once.
func (q *delayQueue[V]) awaitDue(ctx context.Context, now int64) (*waiter, error) {
	if q.closed {
		return nil, errQueueClosed
	}
	if q.due(now) {
		return nil, nil
	}
	w := q.waiters.add()
	for !q.due(q.clock()) {
		if err := q.wait(ctx, w); err != nil {
			q.leave(w)
			return nil, err
		}
	}
	return w, nil
}

// due reports whether a value is due at the instant now.
func (q *delayQueue[V]) due(now int64) bool {
	q.now = now
	return q.itemDue(now) || q.ready.len() > 0
}

// itemDue reports whether the earliest of items is due at the instant now. If so, it also
// collects a batch of due values for the next pops.
func (q *delayQueue[V]) itemDue(now int64) bool {
	e, ok := q.items.first()
	if !ok || e.at > now {
		return false
	}
	if q.items.collect(now) && q.onBatch != nil {
		q.onBatch(q.items.batch)
	}
	return true
}

// wait waits, without q.mu, until w has a reason to look at the items again. It returns
// an error if the queue is closed or ctx has ended.
func (q *delayQueue[V]) wait(ctx context.Context, w *waiter) error {
	var timer <-chan time.Time
	if w == q.waiters.first {
		timer = q.startTimer()
	}
	q.mu.Unlock()
	select {
	case <-w.wake:
	case <-timer:
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	q.mu.Lock()
	q.wakeups++
	if q.closed {
		return errQueueClosed
	}
	return err
}

// startTimer sets the timer to the instant of the earliest value. No value is due at
// q.now. It returns the channel of the timer, or nil if the queue is empty.
func (q *delayQueue[V]) startTimer() <-chan time.Time {
	q.wakeAt = never
	e, ok := q.items.first()
	if !ok {
		return nil
	}
	q.wakeAt = e.at
	d := time.Duration(e.at - q.now)
	if q.timer == nil {
		q.timer = time.NewTimer(d)
	} else {
		q.timer.Reset(d)
	}
	return q.timer.C
}

// leave removes w from the list. If w was the leader and a value is left, it wakes the
// next leader. It does nothing if w is nil.
func (q *delayQueue[V]) leave(w *waiter) {
	if w == nil {
		return
	}
	led := w == q.waiters.first
	q.waiters.remove(w)
	if !led {
		return
	}
	q.wakeAt = never
	if q.ready.len() > 0 {
		q.wakeLeader(q.now)
	} else if e, ok := q.items.first(); ok {
		q.wakeLeader(e.at)
	}
}

// wakeLeader wakes the leader if it would wake later than the instant at.
func (q *delayQueue[V]) wakeLeader(at int64) {
	if leader := q.waiters.first; leader != nil && at < q.wakeAt {
		q.wakeAt = at
		leader.signal()
	}
}

// close closes the queue and wakes all waiters. The values stay.
func (q *delayQueue[V]) close() {
	q.closed = true
	for w := q.waiters.first; w != nil; w = w.next {
		w.signal()
	}
}
