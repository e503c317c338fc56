// The nodes of timers: their memory, their states and all transitions between them.

package wheel

import "github.com/leasewheel/leasewheel/schedule"

// The state of a node. Every transition is a method in this file:
//
//	state    | Schedule | Reset    | Stop         | collect | begin   | end    | removeZombies
//	---------+----------+----------+--------------+---------+---------+--------+--------------
//	free     | queued   |          |              |         |         |        |
//	queued   |          | queued   | zombie, free | ready   |         |        |
//	zombie   |          | refused  | refused      |         |         |        | free
//	ready    |          | queued   | free         |         | running |        |
//	running  |          | rearmed  | stopped      |         |         | free   |
//	rearmed  |          | rearmed  | stopped      |         |         | queued |
//	stopped  |          | refused  | stopped      |         |         | free   |
//
//	free     the node is in the free list of the slab
//	queued   the node is in a bucket
//	zombie   the timer was stopped, but its node is still in a bucket
//	ready    the timer is due and collected, and its Run has not begun
//	running  Run is in progress
//	rearmed  Run is in progress, and the timer was reset meanwhile
//	stopped  Run is in progress, and the timer was stopped meanwhile
//
// A queued node and a zombie have the index of their bucket in node.bucket. Free nodes
// and zombies have no task.
const (
	stateReady = ^uint32(iota)
	stateRunning
	stateRearmed
	stateStopped
	stateFree
)

// queued reports whether the node is in a bucket.
func (n *node) queued() bool { return n.bucket < stateFree }

// running reports whether a Run of the timer is in progress.
func (n *node) running() bool { return n.bucket < stateReady && n.bucket >= stateStopped }

// schedule queues a new timer for a tick and returns its id. The last tick that is over is
// now.
func (b *buckets) schedule(task schedule.Task, now, tick int64) uint64 {
	slot, n := b.alloc(task)
	b.forward(now)
	b.add(slot, n, tick)
	return n.id(slot)
}

// reset moves a timer to a tick. A timer whose Run is in progress is queued when that
// Run returns. If reset queued it earlier, a second Run could overlap the first one on
// an Executor. The result is false if the timer was stopped.
func (b *buckets) reset(slot uint32, n *node, now, tick int64) bool {
	switch {
	case n.queued():
		b.move(slot, n, tick)
	case n.bucket == stateStopped:
		return false
	case n.running():
		n.tick, n.bucket = tick, stateRearmed
	default:
		b.forward(now)
		b.add(slot, n, tick)
	}
	return true
}

// stop ends a timer. It returns whether it prevented a Run, and whether the timer no
// longer counts as pending.
func (b *buckets) stop(slot uint32, n *node) (prevented, removed bool) {
	switch {
	case n.running():
		prevented = n.bucket == stateRearmed
		n.bucket = stateStopped
		return prevented, false
	case n.queued():
		b.cancel(slot, n)
	default:
		b.free(slot, n)
	}
	return true, true
}

// begin starts the Run of a timer and returns its node. It returns nil if the timer was
// stopped or moved after it was collected.
func (b *buckets) begin(id uint64) *node {
	_, n := b.find(id)
	if n == nil || n.bucket != stateReady {
		return nil
	}
	n.bucket = stateRunning
	return n
}

// end finishes the Run of timer id: it queues a timer that was reset during Run and
// frees any other. It returns whether a Run of the timer was in progress, and whether
// the timer no longer counts as pending.
func (b *buckets) end(id uint64) (ended, removed bool) {
	slot, n := b.find(id)
	if n == nil || !n.running() {
		return false, false
	}
	if n.bucket == stateRearmed {
		b.add(slot, n, n.tick)
		return true, false
	}
	b.free(slot, n)
	return true, true
}

// maxZombies is the number of stopped timers that are unlinked together.
const maxZombies = 64

// cancel ends a queued timer. Its node stays in the bucket as a zombie until there are
// maxZombies of them. The neighbours of a node can be anywhere in memory, so unlinking
// it takes two cache misses. In a loop over many nodes the CPU overlaps these misses.
// Stopping a random one of a million timers and scheduling another then takes 25 % less
// time.
//
// A node that is alone in its bucket has no neighbours. It is freed at once.
func (b *buckets) cancel(slot uint32, n *node) {
	if n.next == slot {
		b.unlink(slot, n)
		b.free(slot, n)
		return
	}
	n.task = nil
	b.zombies = append(b.zombies, slot)
	if len(b.zombies) == maxZombies || len(b.zombies) == b.live {
		b.removeZombies()
	}
}

// free frees a node that is in no bucket. If only zombies are left, it frees them, too,
// so that the slab releases its memory. The next visit of a bucket may be far away.
func (b *buckets) free(slot uint32, n *node) {
	b.slab.free(slot, n)
	if len(b.zombies) == b.live && b.live > 0 {
		b.removeZombies()
	}
}

// removeZombies unlinks and frees the nodes of stopped timers. It runs before a bucket
// is emptied, so that no other code meets a zombie there.
func (b *buckets) removeZombies() {
	for _, slot := range b.zombies {
		n := b.at(slot)
		b.unlink(slot, n)
		b.slab.free(slot, n)
	}
	b.zombies = b.zombies[:0]
}

// count returns the number of timers that are pending or running.
func (b *buckets) count() int { return b.live - len(b.zombies) }

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
