package renewal

import (
	"math/bits"
	"time"
)

// Stats is a snapshot of what a watchdog holds and has done since its making.
type Stats struct {
	Held     int // leases under the watchdog
	Due      int // of these, waiting for a free slot
	InFlight int // calls of Renew under way

	Batches  uint64 // calls of Renew that have returned
	Renewed  uint64 // renewals confirmed
	Unknown  uint64 // renewals without an answer
	NotOwned uint64 // leases lost because the store said so
	Failed   uint64 // leases lost because their renewals failed
	Expired  uint64 // leases lost by their deadline
	Unsaid   uint64 // calls of Hooks.BatchDone left out

	Oldest time.Duration // how long the renewal that is due longest has been waiting for a slot
	Late   Histogram     // how long after its instant each renewal was sent, less the 2 ms in which a batch gathers
}

// Lost returns how many leases were lost, for whatever reason.
func (s Stats) Lost() uint64 { return s.NotOwned + s.Failed + s.Expired }

// Stats returns a snapshot, also after Close. It is safe for concurrent use.
func (w *Watchdog[L]) Stats() Stats {
	w.mu.Lock()
	s := w.stats
	s.Held = w.held
	now := w.clock.now()
	for _, l := range w.lanes {
		s.InFlight += l.workers
		for _, q := range l.queues {
			s.Due += q.again.len + q.fresh.len
			s.Oldest = max(s.Oldest, q.again.age(now), q.fresh.age(now))
		}
	}
	lost := w.lost
	w.mu.Unlock()
	s.NotOwned, s.Failed, s.Expired = lost[NotOwned], lost[Failed], lost[Expired]
	s.Unsaid = w.reports.droppedCount()
	return s
}

// Histogram counts durations from 1 µs to over an hour, in buckets of 1 µs or at most
// 12.5 % of the duration. It is a value: a copy is a snapshot.
type Histogram struct {
	counts [histOctaves * histSteps]uint64
}

const (
	histBits    = 3 // 8 buckets to each doubling: each at most 12.5 % wide
	histSteps   = 1 << histBits
	histOctaves = 32
)

// add counts a duration; a negative one counts as zero.
func (h *Histogram) add(d time.Duration) {
	h.counts[histIndex(d)]++
}

// histIndex returns the bucket of a duration: microseconds up to 2·histSteps
// have one each, above that the leading histBits+1 bits choose.
func histIndex(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	shift := max(bits.Len64(us)-histBits-1, 0)
	return min(shift*histSteps+int(us>>shift), histOctaves*histSteps-1)
}

// histUpper returns the upper end of a bucket.
func histUpper(index int) time.Duration {
	shift := max(index/histSteps-1, 0)
	return time.Duration(uint64(index-shift*histSteps+1)<<shift) * time.Microsecond
}

// Count returns how many durations were counted.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Quantile returns a duration that the given part of those counted, 0 to 1, does
// not exceed: the upper end of a bucket, so at most 12.5 % or 1 µs above the
// exact one, but for those beyond an hour. It is 0 if none were counted.
func (h Histogram) Quantile(part float64) time.Duration {
	rank := uint64(part * float64(h.Count()))
	var seen uint64
	last := -1
	for i, c := range h.counts {
		if c == 0 {
			continue
		}
		last = i
		if seen += c; seen > rank {
			break
		}
	}
	if last < 0 {
		return 0
	}
	return histUpper(last)
}

// Since returns what was counted after an earlier snapshot of the same histogram.
func (h Histogram) Since(earlier Histogram) Histogram {
	diff := h
	for i := range diff.counts {
		diff.counts[i] -= earlier.counts[i]
	}
	return diff
}
