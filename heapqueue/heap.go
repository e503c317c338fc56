package heapqueue

import (
	"cmp"
	"slices"
)

const (
	// largest is how many values a heap can hold: slots count them in 32 bits.
	largest = 1<<31 - 1

	chunkLen = 32
)

// heap holds values, each under an id, and knows which is the earliest. It is
// passive: it has no clock and no lock, and instants are plain numbers to it. The
// zero heap is empty.
//
// A value waits for its instant or, once taken, is only kept: out of the order,
// its id still good, until it is placed again or freed.
//
// Values lie by slot in chunks: that costs no allocation in steady state, leaves
// the garbage collector few objects to visit, and keeps them out of the sifting.
type heap[T any] struct {
	order  order
	chunks []*[chunkLen]T
}

// len returns how many values are held, waiting or taken.
func (h *heap[T]) len() int { return h.order.slots.live }

// add holds v, waiting for the instant at, and returns its id.
func (h *heap[T]) add(v T, at int64) uint64 {
	slot := h.order.slots.occupy()
	if int(slot/chunkLen) == len(h.chunks) {
		h.chunks = append(h.chunks, new([chunkLen]T))
	}
	*h.value(slot) = v
	h.order.place(slot, at)
	return h.id(slot)
}

// first returns the earliest instant that a value waits for.
func (h *heap[T]) first() (at int64, ok bool) {
	if len(h.order.entries) == 0 {
		return 0, false
	}
	return h.order.entries[0].at, true
}

// peek returns the earliest value; one must wait.
func (h *heap[T]) peek() *T { return h.value(h.order.entries[0].slot) }

// take ends the waiting of the earliest value; one must wait.
func (h *heap[T]) take() (slot uint32, at int64) {
	e := h.order.entries[0]
	h.order.remove(e.slot)
	return e.slot, e.at
}

// find returns the slot of the value known as id, if it is still held.
func (h *heap[T]) find(id uint64) (slot uint32, ok bool) { return h.order.slots.find(id) }

func (h *heap[T]) id(slot uint32) uint64 { return h.order.slots.id(slot) }

func (h *heap[T]) value(slot uint32) *T { return &h.chunks[slot/chunkLen][slot%chunkLen] }

// waiting reports whether the value in slot waits, which it does unless taken.
func (h *heap[T]) waiting(slot uint32) bool { return h.order.has(slot) }

// place lets the value in slot, waiting or taken, wait for the instant at.
func (h *heap[T]) place(slot uint32, at int64) { h.order.place(slot, at) }

// remove lets go of a value that waits.
func (h *heap[T]) remove(slot uint32) {
	h.order.remove(slot)
	h.free(slot)
}

// free lets go of a value that was taken, and returns it.
func (h *heap[T]) free(slot uint32) T {
	v := *h.value(slot)
	var zero T
	*h.value(slot) = zero
	h.order.slots.vacate(slot)
	if h.order.slots.shrink() {
		h.order.entries, h.chunks = nil, nil
	}
	return v
}

// drain empties the heap, in which no value may be taken, for good: ids given out
// before are stale as long as none is given out after. It returns the values,
// earliest first.
func (h *heap[T]) drain() []T {
	slices.SortFunc(h.order.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), int(int32(a.arrival-b.arrival)))
	})
	values := slices.Grow([]T(nil), len(h.order.entries))
	for _, e := range h.order.entries {
		values = append(values, *h.value(e.slot))
	}
	*h = heap[T]{}
	return values
}
