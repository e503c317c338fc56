package heapqueue

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// How Pop waits. Callers stand in line. Only the first, the leader, sleeps on the
// clock; the others, the followers, sleep until the lead is theirs. Whoever leaves
// the line hands the lead on, so one value wakes one caller. (Leader/Followers:
// Schmidt, O'Ryan, Kircher, Pyarali and Buschmann, 2000.)
//
// No wake-up is lost:
//
//   - A caller looks at the items and says in armed how long the leader sleeps,
//     in one hold of mu. Whoever brings an earlier instant does so in a later hold,
//     sees that the leader would oversleep it, and signals.
//   - A signal stays in a channel of one until it is received, and was sent under
//     mu. So the receiver, which locks mu and looks again, sees what it was sent
//     for. A signal only means "look": one in vain does no harm.
//   - A caller that leaves for its context does so in a hold of mu, as in
//     golang.org/x/sync/semaphore. It drops a signal that it has not heeded, but
//     if it led, it hands the lead on in the same hold.
//
// The instant of a new value is compared with armed, not with the earliest value:
// an alarm that comes too early, as its value has been removed, does no harm, and
// values that come and go do not wake the leader each time.

// line is the callers that wait, first come first served.
type line struct {
	first, last *waiter
	spare       *waiter // those that have left, for the next to join
	spares      int     // how many, maxSpares at most
}

// maxSpares bounds what a burst of callers leaves behind.
const maxSpares = 64

type waiter struct {
	wake       chan struct{} // holds at most one signal
	prev, next *waiter       // of a spare one, only next
}

// join puts one more waiter at the end of the line.
func (l *line) join() *waiter {
	w := l.spare
	if w == nil {
		w = &waiter{wake: make(chan struct{}, 1)}
	} else {
		l.spare = w.next
		l.spares--
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

// leave takes w out of the line and drops a signal that it has not heeded.
func (l *line) leave(w *waiter) {
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
	if l.spares < maxSpares {
		w.next, l.spare = l.spare, w
		l.spares++
	}
}

// signal makes w look at the items again. One sent before and not received yet
// will do.
func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// The methods below are called with q.mu held. Only take and sleep let go of it.

// take waits for the earliest value to be due and takes it. It returns its slot
// and the instant it waited for.
func (q *Queue[T]) take(ctx context.Context) (slot uint32, at int64, err error) {
	if q.closed {
		return 0, 0, schedule.ErrClosed
	}
	if !q.due() {
		w := q.line.join()
		defer q.leave(w)
		for !q.due() {
			if err := q.sleep(ctx, w); err != nil {
				return 0, 0, err
			}
		}
	}
	slot, at = q.items.take()
	return slot, at, nil
}

// due reports whether the earliest value is due.
func (q *Queue[T]) due() bool {
	at, ok := q.items.first()
	if !ok {
		return false
	}
	q.now = int64(time.Since(q.base))
	return at <= q.now
}

// sleep waits, without q.mu, until there may be something new for w to see. The
// error is not nil if w has no more to wait for.
func (q *Queue[T]) sleep(ctx context.Context, w *waiter) error {
	var alarm <-chan time.Time
	if w == q.line.first {
		alarm = q.arm()
	}
	q.mu.Unlock()
	select {
	case <-w.wake:
	case <-alarm:
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	q.mu.Lock()
	if q.closed {
		return schedule.ErrClosed
	}
	return err
}

// arm sets the alarm for the earliest value, which is not due yet, and returns
// its channel: nil, which never delivers, if there is no value.
func (q *Queue[T]) arm() <-chan time.Time {
	q.armed = never
	at, ok := q.items.first()
	if !ok {
		return nil
	}
	q.armed = at
	d := time.Duration(at - q.now)
	if q.alarm == nil {
		q.alarm = time.NewTimer(d)
	} else {
		q.alarm.Reset(d)
	}
	return q.alarm.C
}

// leave takes w out of the line. If it led, the next in line leads from now on
// and is signalled, unless nothing is left that it could wait for.
func (q *Queue[T]) leave(w *waiter) {
	led := w == q.line.first
	q.line.leave(w)
	if !led {
		return
	}
	q.armed = never
	if at, ok := q.items.first(); ok {
		q.rouse(at)
	}
}

// rouse signals the leader if it would oversleep the instant at.
func (q *Queue[T]) rouse(at int64) {
	if leader := q.line.first; leader != nil && at < q.armed {
		q.armed = at
		leader.signal()
	}
}

// shut closes the queue, with the values still in it, and ends all waiting.
func (q *Queue[T]) shut() {
	q.closed = true
	for w := q.line.first; w != nil; w = w.next {
		w.signal()
	}
}
