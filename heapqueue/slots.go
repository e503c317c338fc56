package heapqueue

import "math"

const (
	absent = -1

	// retired is a generation that no id carries: a slot that has come so far is
	// not used again, so that no id ever comes to mean a second value.
	retired = math.MaxUint32

	// keep is how many slots stay allocated when all are vacant, so that a queue
	// that fills and empties all the time does not allocate each time.
	keep = 1 << 14
)

// slots hands out numbered slots, the one vacated last first, and names each use
// of a slot by an id: the slot and its generation. Once the slot is vacated the id
// is stale for ever.
type slots struct {
	table  []slot
	vacant uint32 // the first vacant slot plus one; 0 = none
	live   int    // how many are in use

	// An id given out before a shrink must stay stale after it, so slots made
	// later begin at floor, which is beyond every generation of the slots dropped.
	floor, peak uint32
}

type slot struct {
	gen  uint32
	link int32 // in use: its index in the order, or absent; vacant: as slots.vacant
}

// occupy returns a slot that is in use from now on.
func (s *slots) occupy() uint32 {
	if s.vacant == 0 {
		s.table = append(s.table, slot{gen: s.floor})
		s.vacant = uint32(len(s.table))
	}
	n := s.vacant - 1
	s.vacant = uint32(s.table[n].link)
	s.table[n].link = absent
	s.live++
	return n
}

// vacate ends the use of slot n.
func (s *slots) vacate(n uint32) {
	at := &s.table[n]
	at.gen++
	s.peak = max(s.peak, at.gen)
	if at.gen != retired {
		at.link, s.vacant = int32(s.vacant), n+1
	}
	s.live--
}

func (s *slots) id(n uint32) uint64 { return uint64(s.table[n].gen)<<32 | uint64(n) }

// find returns the slot that id names, unless id is stale.
func (s *slots) find(id uint64) (n uint32, ok bool) {
	n = uint32(id)
	return n, n < uint32(len(s.table)) && s.table[n].gen == uint32(id>>32)
}

// shrink gives back the memory of many slots, all vacant, and reports whether it
// did.
func (s *slots) shrink() bool {
	if s.live > 0 || len(s.table) <= keep || s.peak == retired {
		return false
	}
	*s = slots{floor: s.peak, peak: s.peak}
	return true
}
