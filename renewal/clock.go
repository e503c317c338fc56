// An instant on two clocks, the monotonic and the wall clock.

package renewal

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// instant is one moment on both clocks, in nanoseconds: mono since the base of the
// clock, wall since 1970. Go's monotonic clock stops while the host is suspended, but
// the clock of the server does not. The wall clock can be stepped. For a
// deadline, the clock with less time left decides.
type instant struct{ mono, wall int64 }

const (
	// distantPast is the deadline of an entry that has ended.
	distantPast = math.MinInt64

	// distantFuture is the end of a lease without one. Sums with it do not overflow.
	distantFuture = math.MaxInt64 / 2
)

// reached reports whether either clock has reached the deadline.
func (i instant) reached(deadline instant) bool {
	return i.mono >= deadline.mono || i.wall >= deadline.wall
}

// until returns the time to the deadline on the clock with less time left.
func (i instant) until(deadline instant) time.Duration {
	return time.Duration(min(deadline.mono-i.mono, deadline.wall-i.wall))
}

// clockOffset returns how far the wall clock is ahead of the monotonic clock. A
// change of it means that one of them was stepped or stopped.
func (i instant) clockOffset() int64 { return i.wall - i.mono }

// tighter returns the instant on whose two clocks an offset is the given one, by the
// earlier of the readings of i.
func (i instant) tighter(offset int64) instant {
	return instant{min(i.mono, i.wall-offset), min(i.wall, i.mono+offset)}
}

// clock reads both clocks. Each watchdog has its own base, so that one that was made
// in a synctest bubble uses the time of the bubble.
type clock struct{ base time.Time }

func (c clock) now() instant { return c.at(time.Now()) }

func (c clock) at(t time.Time) instant {
	return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}
}

// endOf returns the end of a lease. The zero time and times beyond the range of the
// clocks are no end.
func (c clock) endOf(t time.Time) instant {
	i := c.at(t)
	if t.IsZero() || i.mono >= distantFuture {
		return instant{distantFuture, distantFuture}
	}
	return i
}

// ageOf returns how long ago t was, on the clock that has advanced more. That is the
// wall clock if the host was suspended since.
func ageOf(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// wallStep is the sum of the steps of the wall clock that tests have made.
var wallStep atomic.Int64

func init() {
	seam.StepWall = func(d time.Duration) { wallStep.Add(int64(d)) }
}
