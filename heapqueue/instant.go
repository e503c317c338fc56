// Instants as numbers, limited to the range of the clock.

package heapqueue

import (
	"math"
	"time"
)

// An instant is a number of nanoseconds since delayQueue.base on the monotonic clock.
const (
	maxInstant = never - 1
	never      = math.MaxInt64 // later than every instant
)

// addInstant returns the instant d after now, limited to the range of instants.
func addInstant(now, d time.Duration) int64 {
	sum := int64(now + d)
	switch {
	case d > 0 && (sum < int64(now) || sum > maxInstant):
		return maxInstant
	case d < 0 && sum > int64(now):
		return math.MinInt64
	}
	return sum
}
