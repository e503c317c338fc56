package wheel

import (
	"math"
	"math/bits"
)

// never is the tick of nothing.
const never = math.MaxInt64

// buckets is the wheel itself, passive: it has no clock, no lock and no
// goroutine, and knows time only as ticks.
//
// The finest level is a hashed wheel (Varghese and Lauck, "Hashed and
// Hierarchical Timing Wheels", scheme 6): one bucket per tick for the ticks just
// ahead. Above it stand levels of 64 buckets, each bucket as wide as the whole
// level below (scheme 7), up to the range of int64. So no timer ever waits for
// rounds, and no setting of the finest level is a bad one. Each bucket has a bit
// in words, set if it may hold a timer; the next tick with work is found by
// looking at a handful of words, and the ticks between cost nothing.
//
// A bucket is visited when cur reaches its first tick. The visit of a finest
// bucket hands out what is due; that of a coarser one files its timers anew,
// each at least one level lower.
type buckets struct {
	slab
	cur   int64    // ticks before cur are done, cur itself is being visited or done
	next  int64    // no bucket is to be visited before this tick
	fine  uint     // log2 of the number of finest buckets
	heads []uint32 // first node of each list: the finest level, then 64 per coarser level
	words []uint64 // a bit per list: it may hold timers
	dead  []uint32 // slots of stopped timers that still lie in their lists
}

const (
	levelBits = 6
	levelLen  = 1 << levelBits
	noList    = ^uint32(0)
)

// init makes the lists of a wheel with 1<<fine finest buckets.
func (b *buckets) init(fine uint) {
	levels := (63 - fine + levelBits - 1) / levelBits
	lists := 1<<fine + levels*levelLen
	b.fine = fine
	b.next = never
	b.heads = make([]uint32, lists)
	b.words = make([]uint64, lists/64)
	b.dead = make([]uint32, 0, maxDead)
}

// add files a node for the given tick, which becomes the one after cur if it is
// not after cur: that tick has been visited.
func (b *buckets) add(slot uint32, n *node, tick int64) {
	n.tick = max(tick, b.cur+1)
	list := b.listOf(n.tick)
	b.push(list, slot, n)
	b.next = min(b.next, b.visitOf(list))
}

// move changes the tick of a queued node. It stays where it is if its bucket is
// visited in time for the new tick; the visit will file it anew.
func (b *buckets) move(slot uint32, n *node, tick int64) {
	tick = max(tick, b.cur+1)
	if tick >= b.visitOf(n.list) {
		n.tick = tick
		return
	}
	b.remove(slot, n)
	b.add(slot, n, tick)
}

// catchUp tells the wheel that it is tick now already, so that timers are filed
// by their distance from now. It does nothing if a visit is due before.
func (b *buckets) catchUp(tick int64) {
	if b.next > tick && b.cur < tick {
		b.cur = tick
	}
}

// step does the first visit that is due by limit, or a part of it: it looks at
// cap(due) nodes at most, so that a lock held over it is held for a short while.
// Nodes that are due are marked ready and the ids of their timers returned in due.
// It returns false when there was nothing left to visit.
func (b *buckets) step(limit int64, due []uint64) ([]uint64, bool) {
	b.bury()
	tick, list := b.first()
	b.next = tick
	if tick > limit {
		return due, false
	}
	b.cur = tick
	for range cap(due) {
		slot := b.heads[list]
		if slot == 0 {
			break
		}
		n := b.at(slot)
		b.remove(slot, n)
		if n.tick <= tick && list < 1<<b.fine {
			n.list = stateReady
			due = append(due, n.id(slot))
			continue
		}
		b.push(b.listOf(n.tick), slot, n)
	}
	return due, true
}

// first returns the list to be visited next and its tick, never if all are
// empty. All levels are compared: a coarse list may begin before the first fine
// one, and one that a step left half done begins at cur.
func (b *buckets) first() (tick int64, list uint32) {
	tick, list = b.firstFine()
	for word := len(b.words) - 1; word >= 1<<b.fine/64; word-- {
		set := b.words[word]
		if set == 0 {
			continue
		}
		coarse := uint32(word*64 + bits.TrailingZeros64(set))
		if visit := b.visitOf(coarse); visit < tick {
			tick, list = visit, coarse
		}
	}
	return tick, list
}

// firstFine is first for the finest level: it goes once around the ring of
// words, beginning and ending with the word of cur, whose lower bits come last.
func (b *buckets) firstFine() (tick int64, list uint32) {
	ring := uint32(1)<<b.fine/64 - 1
	start := uint32(b.cur) & (1<<b.fine - 1)
	word := start / 64
	set := b.words[word] &^ (1<<(start%64) - 1)
	for range ring + 2 {
		if set != 0 {
			list = word*64 + uint32(bits.TrailingZeros64(set))
			return b.visitOf(list), list
		}
		word = (word + 1) & ring
		set = b.words[word]
	}
	return never, noList
}

// listOf returns the list for a tick that is not before cur: the finest one if
// it is near; else that of the level of the highest bit in which it differs from
// cur, which is where the two part ways.
func (b *buckets) listOf(tick int64) uint32 {
	if tick-b.cur < 1<<b.fine {
		return uint32(tick) & (1<<b.fine - 1)
	}
	level := (uint(bits.Len64(uint64(tick^b.cur))) - 1 - b.fine) / levelBits
	index := uint32(tick>>(b.fine+level*levelBits)) & (levelLen - 1)
	return 1<<b.fine + uint32(level)*levelLen + index
}

// visitOf returns the tick at which a list is to be visited: the first of those
// that it stands for, counted from cur.
func (b *buckets) visitOf(list uint32) int64 {
	if list < 1<<b.fine {
		return b.cur + int64((list-uint32(b.cur))&(1<<b.fine-1))
	}
	list -= 1 << b.fine
	shift := b.fine + uint(list/levelLen)*levelBits
	above := b.cur >> (shift + levelBits) << (shift + levelBits)
	return above | int64(list%levelLen)<<shift
}

// push appends a node to a list.
func (b *buckets) push(list, slot uint32, n *node) {
	n.list = list
	head := b.heads[list]
	if head == 0 {
		n.next, n.prev = slot, slot
		b.heads[list] = slot
		b.words[list/64] |= 1 << (list % 64)
		return
	}
	first := b.at(head)
	n.next, n.prev = head, first.prev
	b.at(first.prev).next = slot
	first.prev = slot
}

// remove takes a queued node out of its list.
func (b *buckets) remove(slot uint32, n *node) {
	if n.next == slot {
		b.heads[n.list] = 0
		b.words[n.list/64] &^= 1 << (n.list % 64)
		return
	}
	b.at(n.prev).next = n.next
	b.at(n.next).prev = n.prev
	if b.heads[n.list] == slot {
		b.heads[n.list] = n.next
	}
}
