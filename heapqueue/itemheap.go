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
// and its id until it is freed or pushed again.
//
// Values lie in chunks, indexed by slot. Chunks cost no allocation in the steady
// state, are few objects for the garbage collector, and do not move when the heap does.
type itemHeap[T any] struct {
	heap   heap4
	chunks []*[chunkLen]T
}

// len returns the number of values held, queued or popped.
func (h *itemHeap[T]) len() int { return h.heap.slots.inUse }

// add queues v at the instant at and returns its id.
func (h *itemHeap[T]) add(v T, at int64) uint64 {
	slot := h.heap.slots.alloc()
	if int(slot/chunkLen) == len(h.chunks) {
		h.chunks = append(h.chunks, new([chunkLen]T))
	}
	*h.value(slot) = v
	h.heap.push(slot, at)
	return h.id(slot)
}

// first returns the earliest entry. It returns false if no value is queued.
func (h *itemHeap[T]) first() (e entry, ok bool) { return h.heap.first() }

// collect prepares a batch of values that are due at the instant now for the next pops.
// It reports whether it made a new batch.
func (h *itemHeap[T]) collect(now int64) bool {
	if !h.heap.collect(now) {
		return false
	}
	for _, e := range h.heap.batch {
		prefetch.Line(unsafe.Pointer(h.value(e.slot)))
	}
	return true
}

// pop takes the earliest value out of the order. At least one value must be queued.
func (h *itemHeap[T]) pop() entry { return h.heap.pop() }

// find returns the slot of the value with the given id. It returns false if the value
// was freed or removed.
func (h *itemHeap[T]) find(id uint64) (slot uint32, ok bool) { return h.heap.slots.find(id) }

func (h *itemHeap[T]) id(slot uint32) uint64 { return h.heap.slots.id(slot) }

func (h *itemHeap[T]) value(slot uint32) *T { return &h.chunks[slot/chunkLen][slot%chunkLen] }

// queued reports whether the value in slot is queued. Otherwise it was popped.
func (h *itemHeap[T]) queued(slot uint32) bool { return h.heap.contains(slot) }

// push queues the popped value in slot again, at the instant at.
func (h *itemHeap[T]) push(slot uint32, at int64) { h.heap.push(slot, at) }

// move changes the instant of the queued value in slot.
func (h *itemHeap[T]) move(slot uint32, at int64) { h.heap.move(slot, at) }

// remove takes the queued value in slot out of the order and frees it.
func (h *itemHeap[T]) remove(slot uint32) {
	h.heap.remove(slot)
	h.free(slot)
}

// free frees the slot of a popped value and returns the value.
func (h *itemHeap[T]) free(slot uint32) T {
	v := *h.value(slot)
	var zero T
	*h.value(slot) = zero
	h.heap.slots.release(slot)
	if h.heap.slots.shrink() {
		h.heap.entries, h.heap.batch, h.chunks = nil, nil, nil
	}
	return v
}

// drain empties the heap and returns its values, earliest first. No value may be popped
// and not yet freed. Ids given out before stay stale only if none is given out after.
func (h *itemHeap[T]) drain() []T {
	entries := h.heap.sorted()
	values := slices.Grow([]T(nil), len(entries))
	for _, e := range entries {
		values = append(values, *h.value(e.slot))
	}
	*h = itemHeap[T]{}
	return values
}
