// A heap with the values of its entries.

package heapqueue

import (
	"slices"
	"unsafe"

	"github.com/leasewheel/leasewheel/internal/prefetch"
)

const (
	// maxItems is the number of values that an itemHeap can hold, because slots are
	// numbered in 31 bits.
	maxItems = 1<<31 - 1

	chunkLen = 32
)

// itemHeap holds values, each under an id, in the order of their instants. It has no
// clock and no lock; instants are plain numbers to it. The zero itemHeap is empty.
//
// A value is queued until pop takes it out of the order. A popped value keeps its slot
// and its id until it is freed, or queued again by push.
//
// Values lie in chunks, indexed by slot. Chunks cost no allocation in the steady
// state, are few objects for the garbage collector, and do not move when the heap does.
type itemHeap[T any] struct {
	heap4
	chunks []*[chunkLen]T
}

// len returns the number of values held, queued or popped.
func (h *itemHeap[T]) len() int { return h.inUse }

// add queues v at the instant at and returns its id.
func (h *itemHeap[T]) add(v T, at int64) uint64 {
	slot := h.alloc()
	if int(slot/chunkLen) == len(h.chunks) {
		h.chunks = append(h.chunks, new([chunkLen]T))
	}
	*h.value(slot) = v
	h.push(slot, at)
	return h.id(slot)
}

// collect prepares a batch of values that are due at the instant now for the next pops.
// It reports whether it made a new batch.
func (h *itemHeap[T]) collect(now int64) bool {
	if !h.heap4.collect(now) {
		return false
	}
	for _, e := range h.batch {
		prefetch.Line(unsafe.Pointer(h.value(e.slot)))
	}
	return true
}

func (h *itemHeap[T]) value(slot uint32) *T { return &h.chunks[slot/chunkLen][slot%chunkLen] }

// remove takes the queued value in slot out of the order and frees it.
func (h *itemHeap[T]) remove(slot uint32) {
	h.heap4.remove(slot)
	h.free(slot)
}

// free frees the slot of a popped value and returns the value.
func (h *itemHeap[T]) free(slot uint32) T {
	v := *h.value(slot)
	var zero T
	*h.value(slot) = zero
	h.release(slot)
	if h.shrink() {
		h.entries, h.batch, h.chunks = nil, nil, nil
	}
	return v
}

// drain empties the heap and returns its values, earliest first. No value may be popped
// and not yet freed. Ids given out before stay stale only if none is given out after.
func (h *itemHeap[T]) drain() []T {
	entries := h.sorted()
	values := slices.Grow([]T(nil), len(entries))
	for _, e := range entries {
		values = append(values, *h.value(e.slot))
	}
	*h = itemHeap[T]{}
	return values
}
