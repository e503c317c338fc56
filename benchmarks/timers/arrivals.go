package main

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

// base is the instant from which the harness counts.
var base = time.Now()

// forever is longer than any sample.
const forever = 24 * time.Hour

func now() int64 { return int64(time.Since(base)) }

// arrivals counts what fired, by lateness. A process measures one peer once, so
// there is one for the process, and a callback need hold nothing but its instant:
// one small object to fetch from memory, the same for all peers.
//
// It is in several parts so that functions on several cores seldom write to the
// same line.
var arrivals [16]struct {
	early, worst atomic.Int64
	_            [48]byte
	late         [lateBuckets]atomic.Uint32
}

// The buckets are exponential, each power of two of microseconds cut into 16: a
// quantile is exact to 6 %.
const (
	cuts        = 16
	lateBuckets = 40 * cuts
)

// arrived is what a callback of the harness does.
func arrived(due int64) {
	late := now() - due
	var here byte
	part := &arrivals[uintptr(unsafe.Pointer(&here))>>11%uintptr(len(arrivals))]
	if late < 0 {
		part.early.Add(1)
		for worst := part.worst.Load(); late < worst; worst = part.worst.Load() {
			part.worst.CompareAndSwap(worst, late)
		}
		late = 0
	}
	part.late[bucketOf(late)].Add(1)
}

func bucketOf(late int64) int {
	us := uint64(late)/1000 + cuts
	octave := bits.Len64(us) - bits.Len64(cuts)
	return min(octave*cuts+int(us>>octave-cuts), lateBuckets-1)
}

// upper is the longest lateness of a bucket.
func upper(bucket int) time.Duration {
	octave, cut := bucket/cuts, bucket%cuts
	return time.Duration((cut+cuts+1)<<octave-cuts) * time.Microsecond
}

// tally is the sum of the parts.
type tally struct {
	fired, early uint64
	worst        time.Duration // the earliest, below zero
	late         [lateBuckets]uint64
}

func tallied() tally {
	var sum tally
	for i := range arrivals {
		part := &arrivals[i]
		sum.early += uint64(part.early.Load())
		sum.worst = min(sum.worst, time.Duration(part.worst.Load()))
		for b := range part.late {
			n := uint64(part.late[b].Load())
			sum.late[b] += n
			sum.fired += n
		}
	}
	return sum
}

// quantile is the lateness that a share q of the timers did not exceed.
func (t *tally) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(t.fired)))
	var seen uint64
	for b, n := range t.late {
		seen += n
		if seen >= rank && seen > 0 {
			return upper(b)
		}
	}
	return 0
}

// beats counts what periodic timers do.
var beats [16]struct {
	n atomic.Int64
	_ [56]byte
}

func beat() {
	var here byte
	beats[uintptr(unsafe.Pointer(&here))>>11%uintptr(len(beats))].n.Add(1)
}

func beaten() int64 {
	var sum int64
	for i := range beats {
		sum += beats[i].n.Load()
	}
	return sum
}
