package wheel

import "github.com/leasewheel/leasewheel/schedule"

// A slab keeps timers in chunks of nodes that refer to each other by slot, a
// 32-bit index, instead of by pointer. So a timer costs 40 bytes and no
// allocation, and the garbage collector reads a million of them as a thousand
// flat arrays.
type slab struct {
	chunks []*[chunkLen]node
	free   uint32 // first of the free nodes, linked by next
	used   uint32 // slots handed out so far; slot 0 is none
	live   int    // nodes in use, those of stopped timers that still lie in a bucket included
	gen    uint32 // generation of the node handed out last
}

const (
	chunkBits = 10 // 1,024 nodes of 40 bytes are exactly one size class of the allocator
	chunkLen  = 1 << chunkBits
)

// node is one timer. The owner of the slab guards it.
type node struct {
	task       schedule.Task // nil: the timer is no more
	tick       int64         // the tick at whose end it is due
	next, prev uint32        // its neighbours in the list, a ring
	gen        uint32        // tells the timer from earlier ones in this slot
	list       uint32        // the bucket it lies in, or one of the states below
}

// States of a node that lies in no bucket.
const (
	stateReady   = ^uint32(iota) // due, taken by the worker, not begun
	stateRunning                 // its Run is in progress
	stateRearmed                 // as running, and to be filed for its tick when Run returns
	stateStopped                 // as running, and not to be armed again
)

// queued tells whether the node lies in a bucket, running whether its Run is in
// progress.
func (n *node) queued() bool  { return n.list < stateStopped }
func (n *node) running() bool { return n.list < stateReady && n.list >= stateStopped }

// at returns the node of a slot that is known to exist.
func (s *slab) at(slot uint32) *node {
	return &s.chunks[slot>>chunkBits][slot&(chunkLen-1)]
}

// A timer's id is the generation of its node and the slot. It never comes back,
// see alloc.
func (n *node) id(slot uint32) uint64 { return uint64(n.gen)<<32 | uint64(slot) }

// find returns the slot and the node of a timer, nil if that timer is no more. The
// id may come from a handle of any age.
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

// alloc returns a node that belongs to no bucket yet. One counter of generations
// serves all slots, so that chunks can be dropped without remembering theirs. A
// stale handle could meet a new timer only after exactly a multiple of 2^32 others
// of its shard, in its very slot.
func (s *slab) alloc(task schedule.Task) (uint32, *node) {
	slot := s.free
	if slot != 0 {
		s.free = s.at(slot).next
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
	n.task, n.gen, n.list = task, s.gen, stateReady
	return slot, n
}

// release gives a node back. The last one gives the memory of all back, but for
// one chunk.
func (s *slab) release(slot uint32, n *node) {
	n.task = nil
	n.next, s.free = s.free, slot
	s.live--
	if s.live == 0 && len(s.chunks) > 1 {
		s.chunks = append([]*[chunkLen]node(nil), s.chunks[0])
		s.free, s.used = 0, 0
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
