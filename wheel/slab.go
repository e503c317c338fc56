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
	live   int    // nodes in use
	gen    uint32 // generation of the node handed out last
}

const (
	chunkBits = 10 // 1,024 nodes of 40 bytes are exactly one size class of the allocator
	chunkLen  = 1 << chunkBits
)

// node is one timer. The owner of the slab guards it.
type node struct {
	task       schedule.Task
	tick       int64  // the tick at whose end it is due
	next, prev uint32 // its neighbours in the list, a ring
	gen        uint32 // tells the timer from earlier ones in this slot
	list       uint32 // the bucket it lies in, or one of the states below
}

// States of a node that lies in no bucket.
const (
	stateFree    = ^uint32(iota) // no timer
	stateReady                   // due, taken by the worker, not begun
	stateRunning                 // its Run is in progress
	stateDying                   // as running, and stopped meanwhile: not to be armed again
)

// queued tells whether the node lies in a bucket.
func (n *node) queued() bool { return n.list < stateDying }

// at returns the node of a slot that is known to exist.
func (s *slab) at(slot uint32) *node {
	return &s.chunks[slot>>chunkBits][slot&(chunkLen-1)]
}

// find returns the node of the timer (slot, gen), nil if that timer is no more.
// The slot may come from a handle of any age.
func (s *slab) find(slot, gen uint32) *node {
	if int(slot>>chunkBits) >= len(s.chunks) {
		return nil
	}
	n := s.at(slot)
	if n.gen != gen || n.list == stateFree {
		return nil
	}
	return n
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
	n.task, n.list = nil, stateFree
	n.next, s.free = s.free, slot
	s.live--
	if s.live == 0 && len(s.chunks) > 1 {
		s.chunks = append([]*[chunkLen]node(nil), s.chunks[0])
		s.free, s.used = 0, 0
	}
}

// each calls f for every node in use.
func (s *slab) each(f func(n *node)) {
	for slot := uint32(1); slot <= s.used; slot++ {
		if n := s.at(slot); n.list != stateFree {
			f(n)
		}
	}
}
