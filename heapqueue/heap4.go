// An indexed 4-ary heap, without a lock or a clock.

package heapqueue

import (
	"math"
	"slices"
)

const (
	// arity is the number of children of an entry. A 4-ary heap (D. B. Johnson, 1975)
	// is half as deep as a binary one.
	arity = 4

	// root is the index of the first entry. With three unused entries before it, the
	// four children of an entry lie in one cache line of 64 bytes.
	root = 3

	// batchLen is the number of entries that collect moves at most.
	batchLen = 64
)

// heap4 is an indexed 4-ary min-heap of slots. The children of entry i are the entries
// 4i-8 to 4i-5. Each slot knows the position of its entry, so that a slot can be moved
// or removed in O(log n).
//
// Beside the heap there is a sorted batch. When values are due, collect moves the
// earliest entries from the heap to the batch, so that the memory that they need is
// fetched side by side. The earliest entry of all is the first of the batch or the root
// of the heap, whichever is less, so the order is that of the heap alone.
type heap4 struct {
	slots
	entries []entry // the heap, from root on
	batch   []entry // sorted; entries before next are popped, those of slot removed are void
	next    int     // the first entry of batch, not void; len(batch) is 0 if there is none
	seq     uint64  // the sequence number of the latest entry; 0 when the heap4 runs empty
}

// entry is a slot with its instant. Entries of equal instants are ordered by seq.
type entry struct {
	at   int64
	seq  uint32 // the lower half; slot.seqHigh is the upper half
	slot uint32
}

// removed is the slot of a void entry in the batch.
const removed = math.MaxUint32

// The link of a slot is the index of its entry in the heap, absent, or, if the entry is
// in the batch, batchLink of its index there.
func batchLink(i int) int32 { return int32(absent - 1 - i) }

// less orders entries by instant and, at the same instant, by sequence number.
func (h *heap4) less(a, b entry) bool {
	return a.at < b.at || a.at == b.at && h.seqLess(a, b)
}

// seqLess orders entries by sequence number. It reads the upper halves, which are rarely
// in the cache, only if they can differ.
func (h *heap4) seqLess(a, b entry) bool {
	if h.seq > math.MaxUint32 {
		if x, y := h.slots.table[a.slot].seqHigh, h.slots.table[b.slot].seqHigh; x != y {
			return x < y
		}
	}
	return a.seq < b.seq
}

// queued reports whether the given slot, which is in use, has an entry.
func (h *heap4) queued(slot uint32) bool { return h.slots.table[slot].link != absent }

// push adds an entry for slot, which has none, as the last of the instant at.
func (h *heap4) push(slot uint32, at int64) {
	if len(h.entries) < root {
		h.entries = append(h.entries, make([]entry, root)...)
	}
	h.entries = append(h.entries, entry{})
	h.up(len(h.entries)-1, h.newEntry(slot, at))
}

// move moves the entry of slot to the instant at, as the last entry there.
func (h *heap4) move(slot uint32, at int64) {
	i := h.slots.table[slot].link
	if i < absent {
		h.remove(slot)
		h.push(slot, at)
		return
	}
	h.fix(int(i), h.newEntry(slot, at))
}

func (h *heap4) newEntry(slot uint32, at int64) entry {
	h.seq++
	h.slots.table[slot].seqHigh = uint32(h.seq >> 32)
	return entry{at: at, seq: uint32(h.seq), slot: slot}
}

// remove removes the entry of slot. The slot stays in use.
func (h *heap4) remove(slot uint32) {
	i := int(h.slots.table[slot].link)
	h.slots.table[slot].link = absent
	if i >= root {
		h.removeAt(i)
		return
	}
	i = absent - 1 - i
	h.batch[i].slot = removed
	if i == h.next {
		h.advance()
	}
}

// entry returns the entry of slot, which has one.
func (h *heap4) entry(slot uint32) entry {
	i := int(h.slots.table[slot].link)
	if i >= root {
		return h.entries[i]
	}
	return h.batch[absent-1-i]
}

// first returns the earliest entry. It returns false if there is none.
func (h *heap4) first() (e entry, ok bool) {
	switch {
	case h.batchFirst():
		return h.batch[h.next], true
	case len(h.entries) > root:
		return h.entries[root], true
	}
	return entry{}, false
}

// pop removes the earliest entry and returns it. There must be one.
func (h *heap4) pop() entry {
	e, _ := h.first()
	h.remove(e.slot)
	return e
}

// batchFirst reports whether the earliest entry is in the batch.
func (h *heap4) batchFirst() bool {
	return len(h.batch) > 0 && (len(h.entries) <= root || h.less(h.batch[h.next], h.entries[root]))
}

// collect moves the earliest entries whose instants are not after now to the batch,
// batchLen of them at most. It does nothing while the batch has entries left, or if fewer
// than two entries are due. It reports whether it made a new batch.
func (h *heap4) collect(now int64) bool {
	if len(h.batch) > 0 || !h.twoDue(now) {
		return false
	}
	if h.batch == nil {
		h.batch = make([]entry, 0, batchLen)
	}
	for len(h.batch) < batchLen && len(h.entries) > root && h.entries[root].at <= now {
		e := h.entries[root]
		h.slots.table[e.slot].link = batchLink(len(h.batch))
		h.batch = append(h.batch, e)
		h.removeAt(root)
	}
	return true
}

// twoDue reports whether the root and a child of it are due at the instant now.
func (h *heap4) twoDue(now int64) bool {
	if len(h.entries) <= root || h.entries[root].at > now {
		return false
	}
	for _, e := range h.entries[root+1 : min(root+1+arity, len(h.entries))] {
		if e.at <= now {
			return true
		}
	}
	return false
}

// advance steps to the next entry of the batch that is not void.
func (h *heap4) advance() {
	for h.next < len(h.batch) && h.batch[h.next].slot == removed {
		h.next++
	}
	if h.next == len(h.batch) {
		h.batch, h.next = h.batch[:0], 0
		h.resetSeq()
	}
}

// resetSeq restarts the sequence numbers if there is no entry.
func (h *heap4) resetSeq() {
	if len(h.entries) <= root && len(h.batch) == 0 {
		h.seq = 0
	}
}

// removeAt removes entry i of the heap. The caller sets the link of its slot.
func (h *heap4) removeAt(i int) {
	end := len(h.entries) - 1
	last := h.entries[end]
	h.entries = h.entries[:end]
	if i < end {
		h.fix(i, last)
		return
	}
	h.resetSeq()
}

// fix puts e into the heap in place of entry i.
func (h *heap4) fix(i int, e entry) {
	if i > root && h.less(e, h.entries[parent(i)]) {
		h.up(i, e)
		return
	}
	h.down(i, e)
}

func parent(i int) int { return i/arity + 2 }

// up puts e into the heap at entry i or an ancestor of it.
func (h *heap4) up(i int, e entry) {
	for i > root && h.less(e, h.entries[parent(i)]) {
		h.set(i, h.entries[parent(i)])
		i = parent(i)
	}
	h.set(i, e)
}

// down puts e into the heap at entry i or a descendant of it.
func (h *heap4) down(i int, e entry) {
	n := len(h.entries)
	for {
		child := arity*i - 8
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+arity, n); c++ {
			if h.less(h.entries[c], h.entries[least]) {
				least = c
			}
		}
		if !h.less(h.entries[least], e) {
			break
		}
		h.set(i, h.entries[least])
		i = least
	}
	h.set(i, e)
}

func (h *heap4) set(i int, e entry) {
	h.entries[i] = e
	h.slots.table[e.slot].link = int32(i)
}

// clear removes all entries. The caller frees their slots.
func (h *heap4) clear() {
	h.entries, h.batch, h.next, h.seq = h.entries[:min(root, len(h.entries))], h.batch[:0], 0, 0
}

// remaining returns all entries in any order. The slice shares its memory with the heap4.
func (h *heap4) remaining() []entry {
	all := h.entries[min(root, len(h.entries)):]
	for _, e := range h.batch[h.next:] {
		if e.slot != removed {
			all = append(all, e)
		}
	}
	return all
}

// sorted returns all entries, earliest first. The heap4 must not be used afterwards.
func (h *heap4) sorted() []entry {
	all := h.remaining()
	slices.SortFunc(all, h.compare)
	return all
}

func (h *heap4) compare(a, b entry) int {
	switch {
	case h.less(a, b):
		return -1
	case h.less(b, a):
		return 1
	}
	return 0
}
