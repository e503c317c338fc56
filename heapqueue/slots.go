// Slots that are used again, with generations that mark old handles.

package heapqueue

import "math"

const (
	// absent is the link of a slot in use that is not in the heap.
	absent = -1

	// maxGeneration is the generation that no id carries. A slot that reaches it is
	// never used again, so that no id ever names a second value.
	maxGeneration = math.MaxUint32

	// highGeneration is the generation from which a shrink numbers later slots anew
	// instead of raising their generation: too few generations are left.
	highGeneration = 1 << 31

	// maxFirstNumber bounds slots.firstNumber. With it, the numbers of maxItems slots
	// and of the slots beside them that are never used again fit in 32 bits.
	maxFirstNumber = 1 << 30

	// minShrink is the number of slots that stay allocated when none is in use, so
	// that a queue that often runs empty does not allocate each time it fills.
	minShrink = 1 << 14
)

// slots allocates numbered slots; the slot freed last is allocated first. An id names
// one use of a slot: it is made of the slot's number and generation. An id is stale
// for ever once its slot is freed.
type slots struct {
	table []slot
	free  uint32 // the first free slot plus one; 0 if no slot is free
	inUse int    // number of slots in use

	// Ids that were given out before a shrink must stay stale after it. Slots made
	// after a shrink therefore start at firstGeneration, which is above every
	// generation of the dropped slots. If that would leave too few generations, ids
	// number the slots from a higher firstNumber, above those of the dropped slots.
	firstGeneration, highest, firstNumber uint32
}

type slot struct {
	generation uint32
	link       int32  // free: as slots.free; in use: the position in the heap4, or absent
	seqHigh    uint32 // in the heap4: the upper half of the entry's sequence number
}

// alloc returns a free slot, which is then in use.
func (s *slots) alloc() uint32 {
	if s.free == 0 {
		s.table = append(s.table, slot{generation: s.firstGeneration})
		s.free = uint32(len(s.table))
	}
	n := s.free - 1
	s.free = uint32(s.table[n].link)
	s.table[n].link = absent
	s.inUse++
	return n
}

// release frees slot n. Its id is stale from then on.
func (s *slots) release(n uint32) {
	p := &s.table[n]
	p.generation++
	s.highest = max(s.highest, p.generation)
	if p.generation != maxGeneration {
		p.link, s.free = int32(s.free), n+1
	}
	s.inUse--
}

// id returns the id of slot n, which is in use.
func (s *slots) id(n uint32) uint64 {
	return uint64(s.table[n].generation)<<32 | uint64(s.firstNumber+n)
}

// find returns the slot that id names. It returns false if id is stale.
func (s *slots) find(id uint64) (n uint32, ok bool) {
	n = uint32(id) - s.firstNumber // beyond the table for an id of a lower firstNumber
	return n, n < uint32(len(s.table)) && s.table[n].generation == uint32(id>>32)
}

// shrink frees the table if it is large and no slot is in use, and reports whether it
// did. The numbers of slots run out after a thousand shrinks of a million slots each,
// if one slot is used 2^31 times between two of them. Then the memory stays.
func (s *slots) shrink() bool {
	if s.inUse > 0 || len(s.table) <= minShrink {
		return false
	}
	if s.highest < highGeneration {
		*s = slots{firstGeneration: s.highest, highest: s.highest, firstNumber: s.firstNumber}
		return true
	}
	first := uint64(s.firstNumber) + uint64(len(s.table))
	if first > maxFirstNumber {
		return false
	}
	*s = slots{firstNumber: uint32(first)}
	return true
}
