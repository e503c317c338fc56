// The due entries of a lane.

package renewal

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// lane is the due leases that fail together, and the workers that renew them. The
// watchdog's mu guards it. An idle worker takes all due leases, and the leases that
// become due meanwhile form the next batch. Workers exist only while leases are due. Each
// worker has its own batch, so a call of Renew that hangs does not affect other batches.
type lane[L any] struct {
	id        int
	queues    []*queue[L]
	workers   int
	calls     int  // calls of Renew under way
	lingering bool // a worker is about to take the due leases

	silentSince int64 // the latest answer, or when the first call under way was sent, on the monotonic clock
}

// queue is the due leases of a lane whose attempt timeouts differ by less than a factor of
// two. A batch comes from one queue. In a batch with longer timeouts, a call that hangs
// would leave a lease no time for its second attempt.
type queue[L any] struct {
	timeoutLog2 int     // the number of bits of the attempt timeout
	retries     list[L] // leases whose last renewal failed: they have the earliest deadlines
	fresh       list[L] // all others; leases with the same TTL are in order of their deadlines
}

// enqueue puts an entry into the queue for its attempt timeout.
func (l *lane[L]) enqueue(e *Entry[L], attemptTimeout time.Duration) {
	timeoutLog2 := bits.Len64(uint64(max(attemptTimeout, 0)))
	i := slices.IndexFunc(l.queues, func(q *queue[L]) bool { return q.timeoutLog2 == timeoutLog2 })
	if i < 0 {
		i = len(l.queues)
		l.queues = append(l.queues, &queue[L]{timeoutLog2: timeoutLog2})
	}
	q := l.queues[i]
	if e.failures > 0 {
		q.retries.push(e)
	} else {
		q.fresh.push(e)
	}
}

// next returns the queue of the next batch, or nil if nothing is due. Queues with retries
// come first, then the queue whose first lease has been due longest. In order of
// deadlines, a stream of short leases would delay long ones until their own deadlines.
func (l *lane[L]) next() *queue[L] {
	var first *queue[L]
	for _, q := range l.queues {
		if q.head() != nil && (first == nil || q.precedes(first)) {
			first = q
		}
	}
	return first
}

func (q *queue[L]) precedes(other *queue[L]) bool {
	if retries := q.retries.head != nil; retries != (other.retries.head != nil) {
		return retries
	}
	return q.head().renewAt < other.head().renewAt
}

// head returns the entry to be renewed next, or nil if none is due.
func (q *queue[L]) head() *Entry[L] { return cmp.Or(q.retries.head, q.fresh.head) }

// list is a linked list of entries, from which any entry can be removed in O(1).
type list[L any] struct {
	head, tail *Entry[L]
	len        int
}

func (l *list[L]) push(e *Entry[L]) {
	e.list, e.prev, e.next = l, l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.len++
}

// age returns how long the first entry has been due, or 0 if there is none.
func (l *list[L]) age(now instant) time.Duration {
	if l.head == nil {
		return 0
	}
	return time.Duration(now.mono - l.head.renewAt)
}

func (l *list[L]) remove(e *Entry[L]) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.list, e.prev, e.next = nil, nil, nil
	l.len--
}
