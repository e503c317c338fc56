// Histograms of durations.

package schedule

import (
	"fmt"
	"iter"
	"log/slog"
	"math"
	"math/bits"
	"time"
)

// Histogram counts durations from 1 µs to over an hour in buckets. A bucket is 1 µs wide,
// or at most 12.5 % of its durations. A copy of a Histogram is a snapshot. Count, Sum and
// Buckets have what a monitoring system asks for; see the example of Buckets.
type Histogram struct {
	counts [histBuckets]uint64
	sum    time.Duration
}

const (
	histBits    = 3 // 8 buckets per doubling, each at most 12.5 % wide
	histSteps   = 1 << histBits
	histOctaves = 32
	histBuckets = histOctaves * histSteps
)

// Add counts a duration; a negative one counts as zero. It must not be called concurrently.
func (h *Histogram) Add(d time.Duration) {
	h.counts[histIndex(d)]++
	h.sum += max(d, 0)
}

// histIndex returns the bucket of a duration. Each microsecond up to 2·histSteps has its
// own bucket. Above that, the leading histBits+1 bits select the bucket.
func histIndex(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	shift := max(bits.Len64(us)-histBits-1, 0)
	return min(shift*histSteps+int(us>>shift), histBuckets-1)
}

// histUpper returns the upper end of a bucket. A bucket contains the durations below its
// upper end.
func histUpper(index int) time.Duration {
	shift := max(index/histSteps-1, 0)
	return time.Duration(uint64(index-shift*histSteps+1)<<shift) * time.Microsecond
}

// Count returns the number of durations.
func (h Histogram) Count() uint64 {
	var n uint64
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Sum returns the sum of the durations.
func (h Histogram) Sum() time.Duration { return h.sum }

// Buckets returns an iterator over all buckets in rising order, the empty ones as well. It
// yields the upper bound of a bucket and the number of its durations, which are below that
// bound and not below the bound before. The bounds never change. The last bucket has no
// bound: its durations exceed an hour, and it yields math.MaxInt64.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, count := range h.counts {
			upper := histUpper(i)
			if i == histBuckets-1 {
				upper = math.MaxInt64
			}
			if !yield(upper, count) {
				return
			}
		}
	}
}

// Quantile returns the q-quantile of the durations, for q from 0 to 1. It returns the upper
// end of a bucket, which exceeds the exact value by at most 12.5 % or 1 µs, except for
// values beyond an hour. It returns 0 if the histogram is empty.
func (h Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.Count()))
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

// Since returns the durations that were added after an earlier snapshot of the histogram.
func (h Histogram) Since(earlier Histogram) Histogram {
	diff := h
	for i := range diff.counts {
		diff.counts[i] -= earlier.counts[i]
	}
	diff.sum -= earlier.sum
	return diff
}

// String returns the number of the durations, their mean and some quantiles.
func (h Histogram) String() string {
	n := h.Count()
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("count %d, mean %v, p50 %v, p99 %v, max %v", n, h.mean(n), h.Quantile(0.5), h.Quantile(0.99), h.Quantile(1))
}

// LogValue returns the figures of String as a group.
func (h Histogram) LogValue() slog.Value {
	n := h.Count()
	return slog.GroupValue(
		slog.Uint64("count", n),
		slog.Duration("mean", h.mean(n)),
		slog.Duration("p50", h.Quantile(0.5)),
		slog.Duration("p99", h.Quantile(0.99)),
		slog.Duration("max", h.Quantile(1)),
	)
}

// mean returns the mean of n durations, to the microsecond.
func (h Histogram) mean(n uint64) time.Duration {
	return (h.sum / time.Duration(max(n, 1))).Round(time.Microsecond)
}
