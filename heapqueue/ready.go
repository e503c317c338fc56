// Due values in the order of their priorities.

package heapqueue

import "cmp"

// readyHeap is an indexed binary heap of due values. The first one has the greatest
// priority; among equal priorities it has the earliest instant, and among equal instants
// it was pushed first. The zero readyHeap is empty.
//
// A Queue uses it only while values have priorities. Otherwise due values are popped
// from the heap of instants, which has the same order.
type readyHeap struct {
	entries   []readyEntry
	positions []int32 // of each slot, its index in entries; undefined for other slots
	seq       uint64  // the sequence number of the latest entry
}

type readyEntry struct {
	priority int
	at       int64
	seq      uint64 // values of equal instants become ready in the order of their pushes
	slot     uint32
}

func compareReady(a, b readyEntry) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
}

func (h *readyHeap) len() int { return len(h.entries) }

// push adds the value of e, which has left the heap of instants.
func (h *readyHeap) push(e entry, priority int) {
	if n := int(e.slot) + 1; n > len(h.positions) {
		h.positions = append(h.positions, make([]int32, n-len(h.positions))...)
	}
	h.seq++
	h.entries = append(h.entries, readyEntry{})
	h.fix(len(h.entries)-1, readyEntry{priority: priority, at: e.at, seq: h.seq, slot: e.slot})
}

// pop removes the first entry and returns it. There must be one.
func (h *readyHeap) pop() readyEntry {
	e := h.entries[0]
	h.remove(e.slot)
	return e
}

// remove removes the entry of slot.
func (h *readyHeap) remove(slot uint32) {
	i, end := int(h.positions[slot]), len(h.entries)-1
	last := h.entries[end]
	h.entries = h.entries[:end]
	if i < end {
		h.fix(i, last)
	}
	if end == 0 {
		h.clear()
	}
}

// clear removes all entries. It frees the memory of a large heap.
func (h *readyHeap) clear() {
	h.entries = h.entries[:0]
	if len(h.positions) > minShrink {
		h.entries, h.positions = nil, nil
	}
}

// setPriority changes the priority of the entry of slot.
func (h *readyHeap) setPriority(slot uint32, priority int) {
	i := int(h.positions[slot])
	e := h.entries[i]
	e.priority = priority
	h.fix(i, e)
}

// fix puts e into the heap in place of entry i.
func (h *readyHeap) fix(i int, e readyEntry) {
	for i > 0 && compareReady(e, h.entries[(i-1)/2]) < 0 {
		h.set(i, h.entries[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(h.entries) && compareReady(h.entries[child+1], h.entries[child]) < 0 {
			child++
		}
		if child >= len(h.entries) || compareReady(h.entries[child], e) >= 0 {
			break
		}
		h.set(i, h.entries[child])
		i = child
	}
	h.set(i, e)
}

func (h *readyHeap) set(i int, e readyEntry) {
	h.entries[i] = e
	h.positions[e.slot] = int32(i)
}
