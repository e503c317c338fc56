// The levels: from a tick to its bucket, and the first bucket that is not
// empty.

package wheel

import (
	"math"
	"math/bits"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// This file maps ticks to buckets and back, and finds the next bucket to visit. A bucket
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
