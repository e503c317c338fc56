// Listing, emptying and closing a Queue.

package heapqueue

import (
	"cmp"
	"iter"
	"slices"
)

// All returns an iterator over the items in the queue: first those that are due, in the
// order in which Pop returns them, then the others, earliest first. Each range over the
// iterator takes a snapshot when it begins, in O(n log n). The body of the range may call
// all methods of the queue, and other goroutines may change the queue meanwhile. An item
// of the snapshot may thus have left the queue, and then Remove of its Handle returns
// false.
func (q *Queue[T]) All() iter.Seq[Item[T]] {
	return func(yield func(Item[T]) bool) {
		for _, item := range q.snapshot() {
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

func (q *Queue[T]) snapshot() []Item[T] {
	q.q.mu.Lock()
	defer q.q.mu.Unlock()
	return q.list()
}

// clear is Clear with q.q.mu held.
func (q *Queue[T]) clear() []Item[T] {
	items := q.list()
	q.q.items.heap.clear()
	q.q.ready.clear()
	q.prioritized = 0
	for _, item := range items {
		slot, _ := q.q.items.find(item.Handle.id)
		q.q.items.free(slot)
	}
	return items
}

// list returns all items in the order of All. It is called with q.q.mu held.
func (q *Queue[T]) list() []Item[T] {
	if q.usesReady() {
		q.collectReady(q.q.clock())
	}
	items := slices.Grow([]Item[T](nil), q.q.items.len())
	for _, e := range slices.SortedFunc(slices.Values(q.q.ready.entries), compareReady) {
		items = append(items, q.item(e.slot, e.at))
	}
	heap := &q.q.items.heap
	for _, e := range slices.SortedFunc(slices.Values(heap.remaining()), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(q.priority(b), q.priority(a)), heap.compare(a, b))
	}) {
		items = append(items, q.item(e.slot, e.at))
	}
	return items
}

func (q *Queue[T]) priority(e entry) int { return q.q.items.value(e.slot).priority }
