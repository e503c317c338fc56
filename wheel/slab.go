// The nodes of timers and their handles.

package wheel

import "github.com/leasewheel/leasewheel/schedule"

// slab allocates nodes in chunks. Nodes refer to each other by slot, a 32-bit index,
// so a timer takes 40 bytes and no allocation of its own. The garbage collector scans a
// million timers as a thousand arrays.
type slab struct {
	chunks   []*[chunkLen]node
	freeList uint32 // first free node, 0 if there is none; node.next links the others
	used     uint32 // highest slot ever used since the slab was empty; slot 0 stays unused
	live     int    // nodes in use, zombies included
	gen      uint32 // generation of the node allocated last
}

const (
	chunkBits = 10 // 1,024 nodes of 40 bytes fill a size class of the Go allocator exactly
	chunkLen  = 1 << chunkBits
)

// node is one timer. The owner of the slab guards it.
type node struct {
	task       schedule.Task // nil in free nodes and zombies
	tick       int64         // the timer is due at the end of this tick
	next, prev uint32        // neighbours in the bucket, a ring
	gen        uint32        // distinguishes the timer from earlier ones in this slot
	bucket     uint32        // index of the bucket that holds the node, or its state
}

// at returns the node of a slot that exists.
func (s *slab) at(slot uint32) *node {
	return &s.chunks[slot>>chunkBits][slot&(chunkLen-1)]
}

// id returns the id of the node's timer: its generation and its slot.
func (n *node) id(slot uint32) uint64 { return uint64(n.gen)<<32 | uint64(slot) }

// find returns the slot and the node of a timer, or a nil node if the timer has ended.
// The id may come from a handle of any age.
func (s *slab) find(id uint64) (uint32, *node) {
	slot := uint32(id)
	if int(slot>>chunkBits) >= len(s.chunks) {
		return slot, nil
	}
	n := s.at(slot)
	if n.gen != uint32(id>>32) || n.task == nil {
		return slot, nil
	}
	return slot, n
}

// alloc returns a node that is in no bucket yet. All slots share one counter of
// generations, so a chunk can be released without a record of its generations. A stale
// handle matches a later timer only if that timer has the same slot and a multiple of
// 2^32 allocations lie between the two.
func (s *slab) alloc(task schedule.Task) (uint32, *node) {
	slot := s.freeList
	if slot != 0 {
		s.freeList = s.at(slot).next
	} else {
		s.used++
		slot = s.used
		if int(slot>>chunkBits) == len(s.chunks) {
			s.chunks = append(s.chunks, new([chunkLen]node))
		}
	}
	s.live++
	s.gen++
	n := s.at(slot)
	n.task, n.gen, n.bucket = task, s.gen, stateFree
	return slot, n
}

// free puts a node into the free list. When no node is in use, it releases all chunks
// but one.
func (s *slab) free(slot uint32, n *node) {
	n.task, n.bucket = nil, stateFree
	n.next, s.freeList = s.freeList, slot
	s.live--
	if s.live == 0 && len(s.chunks) > 1 {
		s.chunks = append([]*[chunkLen]node(nil), s.chunks[0])
		s.freeList, s.used = 0, 0
	}
}

// each calls f for every timer.
func (s *slab) each(f func(n *node)) {
	for slot := uint32(1); slot <= s.used; slot++ {
		if n := s.at(slot); n.task != nil {
			f(n)
		}
	}
}
