package heapqueue

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

var errNilContext = errors.New("heapqueue: nil context")

// Queue is a blocking priority queue of values that fall due: Pop hands them out
// in order of their instants, each once and not before its instant. Values of the
// same instant leave in the order in which they were pushed, or moved, there; of
// instants without a monotonic clock reading see Push.
//
// The zero Queue is empty and ready to use. It must not be copied after its first
// use. All methods are safe for concurrent use. A Queue runs no goroutine, so one
// without waiting callers needs no Close.
type Queue[T any] struct {
	mu     sync.Mutex // guards all fields
	base   time.Time  // from which instants are counted, in ns; set by the first Push
	items  heap[T]
	closed bool

	line  line        // callers of Pop that wait; see wait.go
	now   int64       // the clock as the latest look at items read it
	armed int64       // the instant that the leader will not oversleep
	alarm *time.Timer // wakes the leader; made by the first one that needs it
}

const (
	latest = never - 1
	never  = math.MaxInt64 // later than every instant
)

// Item is the handle of a pushed value, by which it can be moved or removed. It
// is a small comparable value, free to copy. It stays harmless for ever: once its
// value has left the queue, Move and Remove do nothing and return false. So they
// do for the zero Item and for one of another queue.
type Item[T any] struct {
	queue *Queue[T]
	id    uint64
}

// Push adds v, to be popped at the instant at or a little later; if that has
// passed, at once. It never waits. It returns schedule.ErrClosed after Close, and
// schedule.ErrFull while the queue holds 1<<31-1 values.
//
// An instant with a monotonic clock reading is held to that clock. One without (a
// parsed date, say) is compared with the wall clock once, here: steps of the wall
// clock after Push do not move it, and two equal ones, pushed one after the other,
// may end up nanoseconds apart, in either order. The monotonic clock stands still
// while the host is suspended, so values then come later.
//
// An instant more than 292 years from now, like the zero Time, counts as one just so
// far away: values of several such instants leave in the order of their pushes.
func (q *Queue[T]) Push(v T, at time.Time) (Item[T], error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return Item[T]{}, schedule.ErrClosed
	case q.items.len() == largest:
		return Item[T]{}, schedule.ErrFull
	case q.base.IsZero():
		q.base = now
	}
	return Item[T]{q, q.add(v, q.instant(now, at))}, nil
}

// Pop waits until a value is due and returns the earliest. A value pushed, or
// moved, to before the one waited for counts at once. Callers wait in line, first
// come first served; a value already due when Pop is called is taken without
// standing in it.
//
// Pop returns schedule.ErrClosed once the queue is closed, and context.Cause(ctx)
// once ctx has ended, whether or not a value is due; with an error no value is
// taken. A nil ctx is an error too.
func (q *Queue[T]) Pop(ctx context.Context) (T, error) {
	var none T
	if ctx == nil {
		return none, errNilContext
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, _, err := q.take(ctx)
	if err != nil {
		return none, err
	}
	return q.items.free(slot), nil
}

// TryPop returns the earliest value if it is due, false if none is or the queue is
// closed. It never waits, and like Pop it takes what is due before those who stand in
// line for it.
func (q *Queue[T]) TryPop() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.due() {
		return v, false
	}
	slot, _ := q.items.take()
	return q.items.free(slot), true
}

// Peek returns the earliest value, due or not, and its instant, and leaves it in
// the queue. It returns false if the queue is empty. Another caller may take or
// move the value at any time.
func (q *Queue[T]) Peek() (v T, at time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since, ok := q.items.first()
	if !ok {
		return v, at, false
	}
	return *q.items.peek(), q.base.Add(time.Duration(since)), true
}

// Move lets the value of item be popped at the instant at, read as by Push, in
// place of its instant before. It returns false if the value has left the queue.
func (q *Queue[T]) Move(item Item[T], at time.Time) bool {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, ok := q.find(item)
	if ok {
		q.place(slot, q.instant(now, at))
	}
	return ok
}

// Remove takes the value of item out of the queue, which then keeps nothing of it.
// It returns true if Pop or Close will not return the value, false if either has,
// or Remove before.
func (q *Queue[T]) Remove(item Item[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, ok := q.find(item)
	if ok {
		q.items.remove(slot)
	}
	return ok
}

// Len returns how many values are in the queue, due or not.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items.len()
}

// Close ends the queue and every waiting Pop, and returns the values that were
// neither popped nor removed, earliest first. It does not wait for those Pops to
// return. A second Close returns nil.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shut()
	return q.items.drain()
}

// The methods below are called with q.mu held.

func (q *Queue[T]) add(v T, at int64) uint64 {
	id := q.items.add(v, at)
	q.rouse(at)
	return id
}

func (q *Queue[T]) place(slot uint32, at int64) {
	q.items.place(slot, at)
	q.rouse(at)
}

func (q *Queue[T]) find(item Item[T]) (slot uint32, ok bool) {
	if item.queue != q {
		return 0, false
	}
	return q.items.find(item.id)
}

// instant is at as the queue counts; now must be a reading of the clock.
func (q *Queue[T]) instant(now, at time.Time) int64 {
	return after(now.Sub(q.base), at.Sub(now))
}

// after is the instant d after now, held within the range of the clock.
func after(now, d time.Duration) int64 {
	sum := int64(now + d)
	switch {
	case d > 0 && (sum < int64(now) || sum > latest):
		return latest
	case d < 0 && sum > int64(now):
		return math.MinInt64
	}
	return sum
}
