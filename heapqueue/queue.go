// The blocking Queue.

package heapqueue

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

var errNilContext = errors.New("heapqueue: nil context")

// Queue is a blocking queue of values with instants and priorities, such as the jobs of a
// program. A value becomes due at its instant. Pop returns each value once, and not
// before its instant.
//
// Among the values that are due, Pop returns the one with the greatest priority. Among
// equal priorities it returns the one with the earliest instant. Values of the same
// priority and instant are popped in the order in which they were pushed or moved there.
// Push documents an exception for instants without a monotonic clock reading. Without
// priorities, values are therefore popped in the order of their instants.
//
// A value of low priority can wait for ever if there is always a due value of a greater
// one. SetPriority can raise it.
//
// The zero Queue is empty and ready to use. A Queue must not be copied after first use.
// All methods are safe for concurrent use. A Queue runs no goroutine, so a Queue that
// nobody waits for need not be closed.
type Queue[T any] struct {
	q           delayQueue[job[T]] // base is set by the first Push
	prioritized int                // number of values whose priority is not 0; guarded by q.mu
}

// job is a value with its priority.
type job[T any] struct {
	value    T
	priority int
}

// Item is a value in a Queue, or one that has left it.
type Item[T any] struct {
	Value    T
	At       time.Time // the instant, limited to the range that Push documents
	Priority int
	Handle   Handle[T] // the Handle that Push returned
}

// Handle names a pushed value, which can be moved and removed with it. A Handle is a small
// comparable value, free to copy. Once its value has left the queue, Move, SetPriority and
// Remove do nothing and return false. They do so for the zero Handle and for a Handle of
// another queue, too.
type Handle[T any] struct {
	queue *Queue[T]
	id    uint64
}

// Push adds v with priority 0, to be popped at the instant at or shortly after it. If at
// has passed, v is due at once. Push does not block. It returns schedule.ErrClosed after
// Close, and schedule.ErrFull while the queue holds 1<<31-1 values.
//
// An instant with a monotonic clock reading is compared with the monotonic clock. An
// instant without one, such as a parsed date, is compared with the wall clock once,
// during Push. Later steps of the wall clock do not move the value, and two values with
// equal instants of this kind can end up nanoseconds apart, in either order. The
// monotonic clock stops while the host is suspended, so values are then popped later.
//
// The queue distinguishes instants within 292 years of now. An instant beyond that range,
// such as the zero Time, counts as the end of the range. Values of several such
// instants are popped in the order in which they were pushed.
//
// A consumer can pop v before Push has returned. It finds the Handle in the Item.
func (q *Queue[T]) Push(v T, at time.Time) (Handle[T], error) {
	return q.PushPriority(v, at, 0)
}

// PushPriority is like Push with the given priority, which can be negative. Among the
// values that are due, those of a greater priority are popped first.
func (q *Queue[T]) PushPriority(v T, at time.Time, priority int) (Handle[T], error) {
	now := time.Now()
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	switch {
	case q.q.closed:
		return Handle[T]{}, errQueueClosed
	case q.q.items.len() == maxItems:
		return Handle[T]{}, schedule.ErrFull
	case q.q.base.IsZero():
		q.q.base = now
	}
	q.countPriority(priority, +1)
	return Handle[T]{q, q.q.add(job[T]{v, priority}, q.q.instant(now, at))}, nil
}

// errQueueClosed is schedule.ErrClosed with a text that suits a queue.
var errQueueClosed error = queueClosedError{}

type queueClosedError struct{}

func (queueClosedError) Error() string        { return "heapqueue: queue is closed" }
func (queueClosedError) Is(target error) bool { return target == schedule.ErrClosed }

// Pop waits until a value is due and returns the first one. It takes account of
// values that are pushed, moved and removed while it waits. Callers that wait are
// served first come, first served. A call that finds a value due takes it at once, even
// if other callers wait.
//
// Pop returns schedule.ErrClosed once the queue is closed, and context.Cause(ctx) once
// ctx has ended, even if a value is due. A Pop that returns an error takes no value. A
// nil ctx is an error, too.
func (q *Queue[T]) Pop(ctx context.Context) (Item[T], error) {
	if ctx == nil {
		return Item[T]{}, errNilContext
	}
	if ctx.Err() != nil {
		return Item[T]{}, context.Cause(ctx)
	}
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	w, err := q.q.awaitDue(ctx, q.q.clock())
	if err != nil {
		return Item[T]{}, err
	}
	item := q.popDue()
	q.q.leave(w)
	return item, nil
}

// TryPop returns the value that Pop would return if one is due. It returns false if no
// value is due or the queue is closed. It does not block and, like Pop, does not wait
// behind the callers of Pop that wait.
func (q *Queue[T]) TryPop() (Item[T], bool) {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	if !q.q.due(q.q.clock()) {
		return Item[T]{}, false
	}
	return q.popDue(), true
}

// PopDue returns all values that are due, in the order in which Pop returns them. It does
// not block, and it returns nil if no value is due.
func (q *Queue[T]) PopDue() []Item[T] {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	var items []Item[T]
	for now := q.q.clock(); q.q.due(now); {
		items = append(items, q.popDue())
	}
	return items
}

// Peek returns the value that TryPop would return. If no value is due, Peek returns one of
// the earliest instant. The value stays in the queue, where another caller can pop or move
// it at any time. Peek returns false if the queue is empty.
func (q *Queue[T]) Peek() (Item[T], bool) {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	if q.usesReady() {
		q.collectReady(q.q.clock())
	}
	if q.q.ready.len() > 0 {
		e := q.q.ready.entries[0]
		return q.item(e.slot, e.at), true
	}
	e, ok := q.q.items.first()
	if !ok {
		return Item[T]{}, false
	}
	return q.item(e.slot, e.at), true
}

// Move changes the instant of the value of h; Push documents how at is read. It
// returns false if the value has left the queue.
func (q *Queue[T]) Move(h Handle[T], at time.Time) bool {
	now := time.Now()
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	slot, ok := q.find(h)
	if !ok {
		return false
	}
	instant := q.q.instant(now, at)
	if q.q.items.queued(slot) {
		q.q.items.move(slot, instant)
	} else {
		q.q.ready.remove(slot)
		q.q.items.push(slot, instant)
	}
	q.q.wakeLeader(instant)
	return true
}

// SetPriority changes the priority of the value of h. It returns false if the value has
// left the queue.
func (q *Queue[T]) SetPriority(h Handle[T], priority int) bool {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	slot, ok := q.find(h)
	if !ok {
		return false
	}
	j := q.q.items.value(slot)
	q.countPriority(j.priority, -1)
	j.priority = priority
	q.countPriority(j.priority, +1)
	if !q.q.items.queued(slot) {
		q.q.ready.setPriority(slot, priority)
	}
	return true
}

// Remove removes the value of h from the queue. True means that no other call
// will return the value. False means that the value has left the queue already. The
// queue keeps no reference to a removed value.
func (q *Queue[T]) Remove(h Handle[T]) bool {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	slot, ok := q.find(h)
	if !ok {
		return false
	}
	q.countPriority(q.q.items.value(slot).priority, -1)
	if q.q.items.queued(slot) {
		q.q.items.remove(slot)
	} else {
		q.q.ready.remove(slot)
		q.q.items.free(slot)
	}
	return true
}

// Len returns the number of values in the queue, due or not.
func (q *Queue[T]) Len() int {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	return q.q.items.len()
}

// All returns an iterator over the items in the queue: first those that are due, in the
// order in which Pop returns them, then the others, earliest first. Each range over the
// iterator takes a snapshot when it begins, in O(n log n). The body of the range may call
// all methods of the queue, and other goroutines may change the queue meanwhile. An item
// of the snapshot may thus have left the queue, and then Remove of its Handle returns
// false.
func (q *Queue[T]) All() iter.Seq[Item[T]] {
	return func(yield func(Item[T]) bool) {
		q.q.mu.Lock()
		items := q.list()
		q.q.mu.Unlock()
		for _, item := range items {
			if !yield(item) {
				return
			}
		}
	}
}

// Clear removes all values, due or not, and returns them in the order of All. The queue
// stays open. Clear returns nil if the queue is empty.
func (q *Queue[T]) Clear() []Item[T] {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	return q.clear()
}

// Close closes the queue and returns the values that are left, in the order of All. Calls
// of Pop that wait return schedule.ErrClosed; Close does not wait for them to return.
// Close is idempotent: each value is returned by one call, so a second Close returns nil.
func (q *Queue[T]) Close() []Item[T] {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	q.q.close()
	return q.clear()
}

// The methods below are called with q.q.mu held.

// usesReady reports whether due values must pass q.q.ready on their way out.
func (q *Queue[T]) usesReady() bool { return q.prioritized > 0 || q.q.ready.len() > 0 }

// collectReady moves the values that are due at the instant now to q.q.ready.
func (q *Queue[T]) collectReady(now int64) {
	for q.q.itemDue(now) {
		e := q.q.items.pop()
		q.q.ready.push(e, q.q.items.value(e.slot).priority)
	}
}

// popDue removes the first of the due values and returns it. q.q.due has returned true.
func (q *Queue[T]) popDue() Item[T] {
	if !q.usesReady() {
		e := q.q.items.pop()
		return q.free(e.slot, e.at)
	}
	q.collectReady(q.q.now)
	e := q.q.ready.pop()
	return q.free(e.slot, e.at)
}

// free frees the slot of a value that has left the order and returns the value.
func (q *Queue[T]) free(slot uint32, at int64) Item[T] {
	item := q.item(slot, at)
	q.countPriority(item.Priority, -1)
	q.q.items.free(slot)
	return item
}

func (q *Queue[T]) item(slot uint32, at int64) Item[T] {
	j := q.q.items.value(slot)
	return Item[T]{
		Value:    j.value,
		At:       q.q.base.Add(time.Duration(at)),
		Priority: j.priority,
		Handle:   Handle[T]{q, q.q.items.id(slot)},
	}
}

// countPriority adds n to the number of values with a priority if priority is not 0.
func (q *Queue[T]) countPriority(priority, n int) {
	if priority != 0 {
		q.prioritized += n
	}
}

func (q *Queue[T]) find(h Handle[T]) (slot uint32, ok bool) {
	if h.queue != q {
		return 0, false
	}
	return q.q.items.find(h.id)
}

// clear implements Clear.
func (q *Queue[T]) clear() []Item[T] {
	items := q.list()
	q.q.items.clear()
	q.q.ready.clear()
	q.prioritized = 0
	for _, item := range items {
		slot, _ := q.q.items.find(item.Handle.id)
		q.q.items.free(slot)
	}
	return items
}

// list returns all items in the order of All.
func (q *Queue[T]) list() []Item[T] {
	if q.usesReady() {
		q.collectReady(q.q.clock())
	}
	items := slices.Grow([]Item[T](nil), q.q.items.len())
	for _, e := range slices.SortedFunc(slices.Values(q.q.ready.entries), compareReady) {
		items = append(items, q.item(e.slot, e.at))
	}
	heap := &q.q.items
	for _, e := range slices.SortedFunc(slices.Values(heap.remaining()), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(q.priority(b), q.priority(a)), heap.compare(a, b))
	}) {
		items = append(items, q.item(e.slot, e.at))
	}
	return items
}

func (q *Queue[T]) priority(e entry) int { return q.q.items.value(e.slot).priority }
