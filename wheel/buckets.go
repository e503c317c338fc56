// The buckets of one shard, without a clock or a lock.

package wheel

import (
	"math"
	"math/bits"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// never is a tick after all others. It means that there is no such tick.
const never = math.MaxInt64

// buckets holds the timers of one shard. It is passive: it has no clock, no lock and no
// goroutine, and measures time in ticks only.
//
// Level 0 is a hashed wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
// scheme 6). It has four buckets per tick. The nodes of a bucket form a linked list, so each
// is loaded only after its neighbour. With four lists the CPU loads four nodes at a time,
// which takes a fifth to a third off the cost of a firing.
//
// The levels above form a hierarchical wheel (scheme 7): each has 128 buckets, and together
// they cover all ticks of an int64. A bucket of level 1 is half as wide as level 0 reaches. A
// bucket of each further level is 64 times as wide as one of the level below. If level 0
// reaches 512 ticks:
//
//	level  buckets  width in ticks  reach in ticks
//	    0  512 x 4               1             512
//	    1      128             256          32,768
//	    2      128          16,384       2,097,152
//	  ...
//
// Each level reaches two widths of the level above. So the timers of a coarse bucket fit
// into the level below as soon as the clock is within one width of its start. Those
// ticks are the window of the bucket. With clk = 100:
//
//	tick     0       100     256             512             768            1024
//	level 1  |  clk's bucket  |  window open  |    new timers of level 1 ...
//	                 ^clk                             v
//	level 0          | | | | | | | | | | | | | | | | |      ticks 100 to 611
//
// Level 0 is visited at each tick with timers, and the due timers are collected. The
// bucket [256, 512) is cascaded from tick 0 to tick 255: its timers move to level 0.
// No timer is added to a bucket whose window is open, and each level has at most one of
// these. Levels 2 and above are cascaded in the same way, into the level below.
//
// A cascade can be split into any number of steps, so that no due timer waits for it:
//
//   - While no timer is due, cascade empties open buckets in steps of one batch. The
//     worker looks for due timers after each.
//   - While each tick has due timers, cascade follows a quota. If a bucket holds K nodes
//     when its window of w ticks opens, cascade looks at ceil(K/w) nodes of this level
//     per tick. The bucket is then empty when it starts, whatever else is pending. If
//     the clock enters the window late, w is the rest of the window.
//   - Nodes are left in a bucket at its start only if the clock jumps over the rest of
//     the window. collectExpired then cascades them first. They are at most ceil(K/w)
//     nodes for each tick of the jump, or K if it spans the whole window. Such a jump
//     needs a worker that is late by many ticks.
//
// The visit of a tick also looks at timers that were moved to a later tick after they
// had been added to its bucket.
type buckets struct {
	slab
	clk         int64    // ticks before clk are done; clk itself is being visited or done
	nextExpiry  int64    // no timer is due and no coarse bucket starts before this tick
	nextCascade int64    // no window opens before this tick; at most clk while one is open
	level0Bits  uint     // log2 of the number of ticks that level 0 reaches
	heads       []uint32 // first node of each bucket: level 0, then 128 for each coarse level
	pendingMap  []uint64 // one bit per bucket, set if it holds nodes
	turns       []uint8  // for each tick of level 0, which of its buckets gets the next node
	counts      []uint32 // number of nodes in each coarse bucket
	quotas      []quota  // one per coarse level
	zombies     []uint32 // slots of stopped timers whose nodes are still in buckets
}

// quota is how fast the open bucket of a level must be emptied while timers are due.
type quota struct {
	since   int64 // tick at which the clock entered the window
	nodes   int64 // nodes in the bucket at that tick
	perTick int64 // nodes to look at per tick
}

// init makes the buckets. Level 0 reaches 1<<level0Bits ticks.
func (b *buckets) init(level0Bits uint) {
	// The buckets of the last level are so wide that levelLen of them cover an int64.
	levels := (63-levelBits-1-(level0Bits-1)+levelBits-1)/levelBits + 1
	b.level0Bits = level0Bits
	count := uint(b.level0Len()) + levels*levelLen
	b.nextExpiry, b.nextCascade = never, never
	b.heads = make([]uint32, count)
	b.pendingMap = make([]uint64, count/64)
	b.turns = make([]uint8, 1<<level0Bits)
	b.counts = make([]uint32, levels*levelLen)
	b.quotas = make([]quota, levels)
	b.zombies = make([]uint32, 0, maxZombies)
}

// move changes the tick of a queued node. The node stays in its bucket if the bucket is
// visited in time for the new tick. That visit moves the node on.
func (b *buckets) move(slot uint32, n *node, tick int64) {
	tick = max(tick, b.clk+1)
	if tick >= b.bucketExpiry(n.bucket) {
		n.tick = tick
		return
	}
	b.unlink(slot, n)
	b.add(slot, n, tick)
}

// forward moves the clock to a tick that is over, so that new timers are queued by their
// distance from it. It does nothing if a bucket must be visited before.
func (b *buckets) forward(tick int64) {
	if b.nextExpiry > tick && b.clk < tick {
		b.setClock(tick)
	}
}

// setClock moves the clock. No timer is due before the tick, and no coarse bucket with
// nodes starts before it. setClock sets the quotas of the windows that the clock enters.
func (b *buckets) setClock(tick int64) {
	for level := range b.quotas {
		shift := b.levelShift(level)
		if b.clk>>shift == tick>>shift {
			break // the clock stays in the windows of the wider levels, too
		}
		b.quotas[level] = quota{}
		if nodes := int64(b.counts[b.openBucket(level, tick)-b.level0Len()]); nodes > 0 {
			left := (tick>>shift+1)<<shift - tick
			b.quotas[level] = quota{since: tick, nodes: nodes, perTick: (nodes + left - 1) / left}
		}
	}
	b.clk = tick
}

// collectExpired makes the first visit that is due by limit, or a part of it. It looks at
// no more than cap(due) nodes, which bounds how long the caller holds its lock. It makes
// the due timers ready and appends their ids to due. It returns false if there was
// nothing to visit.
func (b *buckets) collectExpired(limit int64, due []uint64) ([]uint64, bool) {
	b.removeZombies()
	tick, bucket := b.firstLevel0()
	start, coarse := b.firstCoarse(tick)
	if b.nextExpiry > limit {
		return due, false
	}
	if start <= tick {
		b.setClock(start - 1)
		b.cascadeBucket(coarse, cap(due))
		return due, true
	}
	b.setClock(tick)
	heads := b.heads[bucket:][:ways]
	for way, looked, empty := 0, 0, 0; looked < cap(due) && empty < ways; way = (way + 1) % ways {
		slot := heads[way]
		if slot == 0 {
			empty++ // in a row
			continue
		}
		looked, empty = looked+1, 0
		n := b.at(slot)
		b.unlink(slot, n)
		if n.tick > tick {
			b.add(slot, n, n.tick)
			continue
		}
		n.bucket = stateReady
		due = append(due, n.id(slot))
	}
	return due, true
}

// cascade empties buckets whose windows are open at the given tick, narrow ones first.
// It looks at limit nodes at most: at all that are left if the worker is idle, otherwise
// at those that the quotas demand by the end of the tick. It returns how many nodes it
// looked at, 0 if nothing is left to do or a visit is due by tick.
func (b *buckets) cascade(tick int64, limit int, idle bool) int {
	if b.nextExpiry <= tick {
		return 0
	}
	b.removeZombies()
	if b.clk < tick {
		b.setClock(tick)
	}
	looked := 0
	for level := range b.quotas {
		bucket := b.openBucket(level, b.clk)
		count := int64(b.counts[bucket-b.level0Len()])
		if q := &b.quotas[level]; !idle && count > 0 {
			count -= max(q.nodes-q.perTick*max(tick+1-q.since, 0), 0)
		}
		if count = min(count, int64(limit-looked)); count > 0 {
			b.cascadeBucket(bucket, int(count))
			looked += int(count)
		}
	}
	first, _ := b.firstLevel0()
	b.firstCoarse(first)
	return looked
}

// cascadeBucket moves up to limit nodes of a coarse bucket to their present buckets. Each
// goes to a lower level, unless its timer was reset to a later tick.
func (b *buckets) cascadeBucket(bucket uint32, limit int) {
	for range limit {
		slot := b.heads[bucket]
		if slot == 0 {
			return
		}
		n := b.at(slot)
		b.unlink(slot, n)
		b.add(slot, n, n.tick)
	}
}

// The rest maps ticks to buckets and back, and finds the next bucket to visit. A bucket
// is known by its index in buckets.heads. A bucket of a coarse level is also known by its
// number: the tick at which it starts, divided by its width.

const (
	wayBits   = 2
	ways      = 1 << wayBits   // buckets per tick of level 0
	levelBits = 6              // log2 of the ratio of the widths of two levels
	levelLen  = 2 << levelBits // buckets of a coarse level
	noBucket  = ^uint32(0)
)

// levels returns all levels, without timers, as they are at a tick.
func (b *buckets) levels(tick int64, width time.Duration) []seam.WheelLevel {
	levels := make([]seam.WheelLevel, 1+len(b.quotas))
	ring := int64(1) << b.level0Bits
	levels[0] = seam.WheelLevel{Width: width, Hand: int(tick & (ring - 1)), Timers: make([]int, ring)}
	for level := range b.quotas {
		shift := b.levelShift(level)
		l := seam.WheelLevel{Width: math.MaxInt64, Hand: int(tick >> shift & (levelLen - 1)), Timers: make([]int, levelLen)}
		if int64(width) <= math.MaxInt64>>shift {
			l.Width = width << shift
		}
		levels[level+1] = l
	}
	return levels
}

// position returns the level of a bucket, counted from level 0, and its index there.
func (b *buckets) position(bucket uint32) (level, index int) {
	if bucket < b.level0Len() {
		return 0, int(bucket >> wayBits)
	}
	bucket -= b.level0Len()
	return 1 + int(bucket/levelLen), int(bucket % levelLen)
}

// level0Len returns the number of buckets of level 0.
func (b *buckets) level0Len() uint32 { return ways << b.level0Bits }

// level0Bucket returns one of the buckets of a tick near clk.
func (b *buckets) level0Bucket(tick int64, way uint32) uint32 {
	return uint32(tick)&(1<<b.level0Bits-1)<<wayBits | way
}

// levelShift returns log2 of the width of the buckets of a coarse level.
func (b *buckets) levelShift(level int) uint { return b.level0Bits - 1 + uint(level)*levelBits }

// coarseBucket returns the bucket of a coarse level with the given number.
func (b *buckets) coarseBucket(level int, number int64) uint32 {
	return b.level0Len() + uint32(level)*levelLen + uint32(number)&(levelLen-1)
}

// openBucket returns the bucket of a coarse level whose window contains the given tick.
func (b *buckets) openBucket(level int, tick int64) uint32 {
	return b.coarseBucket(level, tick>>b.levelShift(level)+1)
}

// add puts a node into the bucket for a tick. It takes the tick after clk if the given one is
// not later, because clk has been visited. It chooses the lowest level that reaches the tick. A
// coarse bucket chosen in this way starts more than one width after clk, so its window is not
// open.
//
// The buckets of a tick of level 0 take turns, from the first one on. So they grow evenly, and
// collectExpired, which takes turns too, finds the nodes in the order in which they were added.
func (b *buckets) add(slot uint32, n *node, tick int64) {
	tick = max(tick, b.clk+1)
	n.tick = tick
	distance := tick - b.clk
	if distance < 1<<b.level0Bits {
		b.nextExpiry = min(b.nextExpiry, tick)
		first := b.level0Bucket(tick, 0)
		turn := &b.turns[first>>wayBits]
		if b.pendingMap[first/64]>>(first%64)&(1<<ways-1) == 0 {
			*turn = 0
		}
		bucket := first + uint32(*turn)&(ways-1)
		*turn++
		b.link(bucket, slot, n)
		return
	}
	level := (bits.Len64(uint64(distance)) - 1 - int(b.level0Bits)) / levelBits
	shift := b.levelShift(level)
	if tick>>shift-b.clk>>shift >= levelLen {
		level++
		shift += levelBits
	}
	number := tick >> shift
	b.nextExpiry = min(b.nextExpiry, number<<shift)
	b.nextCascade = min(b.nextCascade, (number-1)<<shift)
	bucket := b.coarseBucket(level, number)
	b.counts[bucket-b.level0Len()]++
	b.link(bucket, slot, n)
}

// bucketExpiry returns the first tick of a bucket, counted from clk.
func (b *buckets) bucketExpiry(bucket uint32) int64 {
	if bucket < b.level0Len() {
		return b.clk + int64((bucket>>wayBits-uint32(b.clk))&(1<<b.level0Bits-1))
	}
	level := int(bucket-b.level0Len()) / levelLen
	shift := b.levelShift(level)
	number := b.clk >> shift
	return (number + int64((bucket-b.coarseBucket(level, number))&(levelLen-1))) << shift
}

// firstLevel0 returns the tick of level 0 to visit next and the first of its buckets, or
// never if all are empty. It searches the bitmap as a ring. The search begins and ends at the word of
// clk, whose lower bits come last.
func (b *buckets) firstLevel0() (tick int64, bucket uint32) {
	mask := b.level0Len()/64 - 1
	start := b.level0Bucket(b.clk, 0)
	word := start / 64
	set := b.pendingMap[word] &^ (1<<(start%64) - 1)
	for range mask + 2 {
		if set != 0 {
			bucket = word*64 + uint32(bits.TrailingZeros64(set))&^(ways-1)
			return b.bucketExpiry(bucket), bucket
		}
		word = (word + 1) & mask
		set = b.pendingMap[word]
	}
	return never, noBucket
}

// firstCoarse returns the coarse bucket that starts first and its start, or never if all
// are empty. It also computes nextCascade, and nextExpiry from the start and the first
// tick of level 0.
func (b *buckets) firstCoarse(tick int64) (start int64, bucket uint32) {
	start, bucket = never, noBucket
	b.nextCascade = never
	words := b.pendingMap[b.level0Len()/64:]
	for level := range b.quotas {
		low, high := words[2*level], words[2*level+1]
		if low|high == 0 {
			continue
		}
		shift := b.levelShift(level)
		number := b.clk >> shift
		if number&64 != 0 {
			low, high = high, low
		}
		// Rotate the 128 bits, so that the bit of clk's bucket becomes the first.
		rotation := uint(number & 63)
		low, high = low>>rotation|high<<(64-rotation), high>>rotation|low<<(64-rotation)
		if low != 0 {
			number += int64(bits.TrailingZeros64(low))
		} else {
			number += 64 + int64(bits.TrailingZeros64(high))
		}
		if number<<shift < start {
			start, bucket = number<<shift, b.coarseBucket(level, number)
		}
		b.nextCascade = min(b.nextCascade, (number-1)<<shift)
	}
	b.nextExpiry = min(tick, start)
	return start, bucket
}

// link appends a node to a bucket.
func (b *buckets) link(bucket, slot uint32, n *node) {
	n.bucket = bucket
	head := b.heads[bucket]
	if head == 0 {
		n.next, n.prev = slot, slot
		b.heads[bucket] = slot
		b.pendingMap[bucket/64] |= 1 << (bucket % 64)
		return
	}
	first := b.at(head)
	n.next, n.prev = head, first.prev
	b.at(first.prev).next = slot
	first.prev = slot
}

// unlink removes a node from its bucket.
func (b *buckets) unlink(slot uint32, n *node) {
	if n.bucket >= b.level0Len() {
		b.counts[n.bucket-b.level0Len()]--
	}
	if n.next == slot {
		b.heads[n.bucket] = 0
		b.pendingMap[n.bucket/64] &^= 1 << (n.bucket % 64)
		return
	}
	b.at(n.prev).next = n.next
	b.at(n.next).prev = n.prev
	if b.heads[n.bucket] == slot {
		b.heads[n.bucket] = n.next
	}
}
