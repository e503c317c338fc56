// What Queue and Scheduler share: a heap with a lock and a clock.

package heapqueue

import (
	"math"
	"sync"
	"time"
)

// delayQueue holds values with instants and lets callers wait for them. Queue adds
// priorities to it, and Scheduler adds workers. The methods are called with mu held,
// except instant and clock, which need base only.
type delayQueue[V any] struct {
	mu     sync.Mutex // guards all fields
	base   time.Time  // instant 0, from which instants are counted in ns
	items  itemHeap[V]
	closed bool

	onBatch func([]entry) // if not nil, called with each new batch of due values

	waiters waiterList  // callers that wait for a due value; see waiters.go
	now     int64       // the latest reading of the clock by due
	wakeAt  int64       // the instant at which the leader wakes
	timer   *time.Timer // wakes the leader; made when it is first needed
	wakeups uint64      // number of times that a caller woke

	ready readyHeap // due values that left the order of items; always empty in a Scheduler
}

// add queues v and wakes the leader if necessary.
func (q *delayQueue[V]) add(v V, at int64) uint64 {
	id := q.items.add(v, at)
	q.wakeLeader(at)
	return id
}

// move moves a queued value and wakes the leader if necessary.
func (q *delayQueue[V]) move(slot uint32, at int64) {
	q.items.move(slot, at)
	q.wakeLeader(at)
}

// clock returns the current instant.
func (q *delayQueue[V]) clock() int64 { return int64(time.Since(q.base)) }

// instant converts at to an instant of the queue. The caller has read the clock as now.
func (q *delayQueue[V]) instant(now, at time.Time) int64 {
	return addInstant(now.Sub(q.base), at.Sub(now))
}

// An instant is a number of nanoseconds since delayQueue.base on the monotonic clock.
const (
	maxInstant = never - 1
	never      = math.MaxInt64 // later than every instant
)

// addInstant returns the instant d after now, limited to the range of instants.
func addInstant(now, d time.Duration) int64 {
	sum := int64(now + d)
	switch {
	case d > 0 && (sum < int64(now) || sum > maxInstant):
		return maxInstant
	case d < 0 && sum > int64(now):
		return math.MinInt64
	}
	return sum
}
