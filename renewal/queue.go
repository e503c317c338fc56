package renewal

import (
	"math/bits"
	"time"
)

// lane is the due leases that share one fate and the workers that renew them.
// The watchdog's mu guards it. Batching is natural: a worker that has a slot
// takes whatever is due; what becomes due meanwhile is the next batch. Workers
// exist only while something is due, and each owns its batch, so that a call of
// Renew that hangs harms nobody else's.
type lane[L any] struct {
	id        int
	queues    []*queue[L]
	workers   int
	gathering bool // one of them is about to take what is due
}

// queue is the due leases of a lane that can wait about as long for an answer. A
// batch is of one queue: in one with leases that can wait longer, a call that hangs
// would take a lease the time for its second try.
type queue[L any] struct {
	patience int     // its binary logarithm
	again    list[L] // those whose last renewal failed: they have the earliest deadlines
	fresh    list[L] // the others; for leases of one TTL in order of deadlines too
}

// enqueue puts an entry into the queue for its patience.
func (l *lane[L]) enqueue(e *Entry[L], patience time.Duration) {
	q := l.queueFor(bits.Len64(uint64(max(patience, 0))))
	if e.failures > 0 {
		q.again.push(e)
	} else {
		q.fresh.push(e)
	}
}

func (l *lane[L]) queueFor(patience int) *queue[L] {
	for _, q := range l.queues {
		if q.patience == patience {
			return q
		}
	}
	q := &queue[L]{patience: patience}
	l.queues = append(l.queues, q)
	return q
}

// next returns the queue to take a batch from, nil if nothing is due: one with a
// lease whose last renewal failed, or else the one whose first has been due longest.
// By deadlines, a stream of short leases would keep long ones waiting until theirs.
func (l *lane[L]) next() *queue[L] {
	var first *queue[L]
	for _, q := range l.queues {
		if q.head() != nil && (first == nil || q.before(first)) {
			first = q
		}
	}
	return first
}

func (q *queue[L]) before(other *queue[L]) bool {
	if q.urgent() != other.urgent() {
		return q.urgent()
	}
	return q.head().at < other.head().at
}

func (q *queue[L]) urgent() bool { return q.again.head != nil }

// head returns the entry to be renewed next, nil if none is due.
func (q *queue[L]) head() *Entry[L] {
	if q.urgent() {
		return q.again.head
	}
	return q.fresh.head
}

// list is a queue of entries, linked through them, that any can leave at once.
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

// age returns for how long the first entry has been due, 0 if there is none.
func (l *list[L]) age(now instant) time.Duration {
	if l.head == nil {
		return 0
	}
	return time.Duration(now.mono - l.head.at)
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
