package renewal

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// instant is one moment on both clocks, in nanoseconds: mono since the base of
// the clock, wall since 1970. Go's monotonic clock stands still while the host
// is suspended, as the server's does not; the wall clock can be stepped. Which
// of them leaves less decides.
type instant struct{ mono, wall int64 }

const (
	// ended is the deadline of an entry that has ended, past on every clock.
	ended = math.MinInt64

	// noEnd is the end of a lease without one: far, and safe to reckon with.
	noEnd = math.MaxInt64 / 2
)

// reached tells whether either clock has come to the deadline.
func (i instant) reached(deadline instant) bool {
	return i.mono >= deadline.mono || i.wall >= deadline.wall
}

// until returns how long it is, at most, to the deadline.
func (i instant) until(deadline instant) time.Duration {
	return time.Duration(min(deadline.mono-i.mono, deadline.wall-i.wall))
}

// lead is how far the wall clock is ahead of the monotonic one; a change of it
// is a jump of one of them.
func (i instant) lead() int64 { return i.wall - i.mono }

// agreed is the earlier of what an instant is on either clock, on both of them, when
// the wall clock is ahead by lead.
func (i instant) agreed(lead int64) instant {
	return instant{min(i.mono, i.wall-lead), min(i.wall, i.mono+lead)}
}

// clock reads both clocks. The base is the watchdog's own, so that a watchdog
// made inside a synctest bubble lives by the bubble's time.
type clock struct{ base time.Time }

func (c clock) now() instant { return c.at(time.Now()) }

func (c clock) at(t time.Time) instant {
	return instant{int64(t.Sub(c.base)), t.UnixNano() + wallStep.Load()}
}

// end is at for the end of a lease: the zero time is none, and one beyond the
// range of the clocks is none either.
func (c clock) end(t time.Time) instant {
	i := c.at(t)
	if t.IsZero() || i.mono >= noEnd {
		return instant{noEnd, noEnd}
	}
	return i
}

// ageOf returns how long ago an instant was, by the clock that has gone on for longer:
// the wall clock, if the host was suspended since.
func ageOf(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// wallStep moves the wall clock in tests.
var wallStep atomic.Int64

func init() {
	seam.StepWall = func(d time.Duration) { wallStep.Add(int64(d)) }
}
