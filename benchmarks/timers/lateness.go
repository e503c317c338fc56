// A histogram of the lateness of timers.

package main

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

// start is the time from which the harness counts.
var start = time.Now()

// forever is longer than any sample.
const forever = 24 * time.Hour

func now() int64 { return int64(time.Since(start)) }

// lateness counts the timers that fired, by how late they were. It is global
// because a process measures one peer once: so a callback needs to hold only the
// time at which it is due, in one small object for every peer.
//
// It has several parts, so that callbacks on different cores seldom write to the
// same cache line.
var lateness [16]struct {
	early atomic.Int64
	_     [56]byte
	late  [lateBuckets]atomic.Uint32
}

// Each power of two of microseconds has bucketsPerOctave buckets of equal width, so
// a quantile is exact to 6 %.
const (
	bucketsPerOctave = 16
	lateBuckets      = 40 * bucketsPerOctave
)

// recordFire counts a timer that was due at the given time and fires now.
func recordFire(due int64) {
	late := now() - due
	var local byte
	part := &lateness[uintptr(unsafe.Pointer(&local))>>11%uintptr(len(lateness))]
	if late < 0 {
		part.early.Add(1)
		late = 0
	}
	part.late[bucketOf(late)].Add(1)
}

func bucketOf(late int64) int {
	us := uint64(late)/1000 + bucketsPerOctave
	octave := bits.Len64(us) - bits.Len64(bucketsPerOctave)
	return min(octave*bucketsPerOctave+int(us>>octave-bucketsPerOctave), lateBuckets-1)
}

// bucketEnd returns the upper bound of a bucket.
func bucketEnd(bucket int) time.Duration {
	octave, rest := bucket/bucketsPerOctave, bucket%bucketsPerOctave
	return time.Duration((rest+bucketsPerOctave+1)<<octave-bucketsPerOctave) * time.Microsecond
}

// histogram is the sum of the parts of lateness.
type histogram struct {
	fired, early uint64
	late         [lateBuckets]uint64
}

func readLateness() histogram {
	var sum histogram
	for i := range lateness {
		part := &lateness[i]
		sum.early += uint64(part.early.Load())
		for b := range part.late {
			n := uint64(part.late[b].Load())
			sum.late[b] += n
			sum.fired += n
		}
	}
	return sum
}

func resetLateness() {
	for i := range lateness {
		part := &lateness[i]
		part.early.Store(0)
		for b := range part.late {
			part.late[b].Store(0)
		}
	}
}

// quantile returns a lateness that a share q of the timers did not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.fired)))
	var seen uint64
	for b, n := range h.late {
		seen += n
		if seen >= rank && seen > 0 {
			return bucketEnd(b)
		}
	}
	return 0
}

func (h *histogram) values() values {
	ms := func(q float64) float64 { return float64(h.quantile(q)) / 1e6 }
	return values{
		"early": float64(h.early) / max(1, float64(h.fired)) * 100,
		"p50":   ms(0.50),
		"p99":   ms(0.99),
		"max":   ms(1),
	}
}

// periodic counts the calls of periodic timers.
var periodic [16]struct {
	n atomic.Int64
	_ [56]byte
}

func recordPeriodic() {
	var local byte
	periodic[uintptr(unsafe.Pointer(&local))>>11%uintptr(len(periodic))].n.Add(1)
}

func periodicCalls() int64 {
	var sum int64
	for i := range periodic {
		sum += periodic[i].n.Load()
	}
	return sum
}
