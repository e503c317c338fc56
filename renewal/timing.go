// Every formula for an instant or a duration, and the clocks.

package renewal

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// The package documentation draws the instants for a lease of 30 s. docs/SAFETY.md gives the
// assumptions and the promises behind them.

const (
	// driftDivisor is assumption A1 of docs/SAFETY.md: the clocks of client and
	// server differ in rate by at most 1/100.
	driftDivisor = 100

	// marginTicks is how many ticks of the engine a margin must cover: one for
	// the rounding of a timer to the tick and one to spare.
	marginTicks = 2

	// schedulerMargin is the part of a margin for the scheduler of the machine.
	schedulerMargin = 2 * time.Millisecond

	// defaultAlignDivisor makes the default grid 1/100 of a period.
	defaultAlignDivisor = 100

	// minPhaseSteps is the number of leases over which first renewals are spread
	// at least, so that the first few leases do not fall together.
	minPhaseSteps = 64

	// maxLinger is how long a new worker waits for further due leases. The engine
	// delivers the renewals of one grid instant one by one. Without the wait they
	// leave in several small batches. Each batch wakes this process and the server
	// again, and the workers compete with the engine for the mutex.
	maxLinger = 2 * time.Millisecond

	// lingerDivisor bounds the wait to 1/16 of a period.
	lingerDivisor = 16

	// graceDivisor makes the grace half of a margin. That exceeds the lateness that
	// the margin allows the engine, and leaves the other half to notify the holder.
	graceDivisor = 2

	// bucketDivisor bounds the width of an expiry bucket to 1/8 of a margin.
	bucketDivisor = 8

	// maxGrace bounds the grace, and the width of a bucket, for very long leases.
	maxGrace = time.Minute
)

// timing is when a lease is renewed and how long it is trusted. It does not change,
// and entries with the same TTL and the same end share one. An entry whose TTL changes gets
// another one.
type timing struct {
	ttl         time.Duration
	maxDeadline instant       // the end of the lease, from Grant.Until
	validity    time.Duration // from sending a confirmed request to the deadline
	period      time.Duration // from sending a confirmed request to sending the next
	margin      time.Duration // from the deadline to the earliest end on the store
	grace       time.Duration // from the deadline until the monitor ends the entry
	bucketMask  int64         // the width of an expiry bucket, a power of two, less one
}

// timingFor returns the timing of leases with that TTL and that end, which is usually the
// timing of the grant before. The caller holds mu.
func (w *Watchdog[L]) timingFor(ttl time.Duration, end instant) *timing {
	if t := w.timing; t != nil && t.ttl == ttl && t.maxDeadline == end {
		return t
	}
	margin := w.opts.margin(ttl)
	w.timing = &timing{
		ttl:         ttl,
		maxDeadline: end,
		validity:    w.opts.validity(ttl),
		period:      w.opts.period(ttl),
		margin:      margin,
		grace:       min(margin/graceDivisor, maxGrace),
		// With powers of two, leases of different TTLs share buckets.
		bucketMask: 1<<(bits.Len64(uint64(max(min(margin, maxGrace)/bucketDivisor, 1)))-1) - 1,
	}
	return w.timing
}

// margin returns the time from the deadline of a lease to its earliest end on the
// store: Options.Margin, but at least 1/100 of the TTL.
func (p *Policy) margin(ttl time.Duration) time.Duration {
	return max(ttl/driftDivisor, p.Margin)
}

// minMargin returns the least Options.Margin for an engine. Timers of an engine with a
// tick fire up to one tick late.
func minMargin(engine schedule.Scheduler) time.Duration {
	ticking, ok := engine.(interface{ Tick() time.Duration })
	if !ok {
		return 0
	}
	tick := ticking.Tick()
	if tick > (math.MaxInt64-schedulerMargin)/marginTicks {
		return math.MaxInt64 // no TTL is long enough
	}
	return marginTicks*tick + schedulerMargin
}

// validity returns how long a lease is trusted after its confirmed request was sent.
// This is the validity time of the Redlock algorithm, TTL − elapsed − drift, counted
// from the sending, and less a margin in which the holder is notified of a loss.
func (p *Policy) validity(ttl time.Duration) time.Duration {
	return ttl - ttl/driftDivisor - p.margin(ttl)
}

// period returns the time between two renewals of a lease.
func (p *Policy) period(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl) * p.Fraction)
}

// Validity returns how long a grant of the given TTL is trusted, counted from
// Grant.Sent. The result is zero or negative for a TTL that is too short.
func (w *Watchdog[L]) Validity(ttl time.Duration) time.Duration {
	return w.opts.validity(ttl)
}

// CheckTTL returns an error if the TTL is too short for a renewal before the deadline.
// If Options.Failures tolerates a failure, the TTL must leave time for two renewals.
func (w *Watchdog[L]) CheckTTL(ttl time.Duration) error {
	validity, margin := w.opts.validity(ttl), w.opts.margin(ttl)
	need := w.opts.period(ttl)
	if w.opts.Failures != 1 {
		need *= 2
	}
	if ttl <= 0 || need <= 0 || validity <= 0 || validity-need < margin { // which cannot overflow
		return fmt.Errorf("TTL of %v is too short: with a margin of %v%s it is valid for %v, but renewals need %v plus the margin",
			ttl, basic.Round(margin), w.marginCause(margin), basic.Round(max(validity, 0)), basic.Round(need))
	}
	return nil
}

// marginCause explains that a margin follows from the tick of the engine, if that is so.
func (w *Watchdog[L]) marginCause(margin time.Duration) string {
	if engine, ok := w.engine.(interface{ Tick() time.Duration }); ok && margin == minMargin(w.engine) {
		return fmt.Sprintf(" (the engine's tick is %v)", engine.Tick())
	}
	return ""
}

// MinLeft returns the least time to the deadline with which an old grant can be
// registered so that one renewal may fail and a second one is still in time. If
// Options.Failures is 1, it leaves time for one renewal only. A lease that is
// registered with less may be lost by a single failure. An old grant is one whose first
// renewal was due before Register, such as that of a lock that was handed over.
func (w *Watchdog[L]) MinLeft(ttl time.Duration) time.Duration {
	margin, period := w.opts.margin(ttl), w.opts.period(ttl)
	if w.opts.Failures == 1 {
		// oldGrantDelay is a quarter. The other three quarters must cover the margin.
		return margin + margin/3
	}
	// Either 3/4 of the time covers an attempt of a whole period and the margin. Or the
	// first attempt times out after half of these 3/4, and the second one, which
	// follows after half of the rest, at 3/16, still has the margin.
	return min(margin+period+(margin+period)/3, 5*margin+margin/3)
}

// firstPhase returns the phase of the first entry of a watchdog. It is random, because many
// processes may start at the same time.
func firstPhase() float64 {
	if phase := seam.RenewalPhase.Load(); phase != nil {
		return *phase / 2
	}
	return rand.Float64() / 2
}

// renewalAt returns the instant at which a renewal becomes due so that it is sent at most
// one period after sent. It is earlier by a fraction of the period, by the time that a
// worker lingers, and by the rounding to the grid.
func (p *Policy) renewalAt(sent int64, period time.Duration, earlier float64) int64 {
	at := sent + int64(period) - int64(lingerFor(period)) - int64(earlier*float64(period))
	grid := int64(p.tuning.Align)
	if grid == 0 {
		grid = int64(period) / defaultAlignDivisor
	}
	grid = min(grid, int64(period)/2) // a coarser grid would make every renewal due at once
	if grid <= 0 {
		return at
	}
	return at - at%grid
}

// lingerFor returns how long a worker waits for further leases of that period. Their
// renewals become due earlier by the same time.
func lingerFor(period time.Duration) time.Duration { return min(maxLinger, period/lingerDivisor) }

// oldGrantDelay returns when a lease is renewed whose first renewal was due before it was
// registered, counted from now. Most locks that were handed over are released within
// moments, so a renewal at once would be wasted. A quarter of the remaining time leaves
// enough for two attempts.
func oldGrantDelay(left time.Duration) time.Duration { return left / 4 }

// steppedDelay returns the time until the next renewal of a lease whose clocks have moved
// apart: random, and at most half a period and half of the remaining time. Renewals at
// one instant would stay together in every later period.
func steppedDelay(period, left time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(min(period/2, left/2)))
}

// attemptTimeout returns how long a renewal sent at that instant may take. It is a
// period, so that a second attempt follows in time. The first attempt for an old grant
// may have less than a period left, and takes at most half of it for the same reason.
func (e *Entry[L]) attemptTimeout(sent instant) time.Duration {
	left := sent.until(e.deadline())
	if e.failures > 0 || left > e.period+time.Duration(e.minRetryWindow()) {
		return e.period
	}
	return left / 2
}

// retryAt returns the instant of the attempt after a failed one: a period after it was
// sent, or now if that has passed. Attempts in quick succession would all fail
// during one restart of the server. If too little of an old grant would be left by then,
// the second attempt follows after half of the remaining time.
func (e *Entry[L]) retryAt(sent, now instant) int64 {
	at := max(now.mono, sent.mono+int64(e.period-lingerFor(e.period)))
	if deadline := e.deadline(); e.failures == 1 && at >= deadline.mono-e.minRetryWindow() {
		at = now.mono + int64(now.until(deadline)/2)
	}
	return at
}

// minRetryWindow returns how long before the deadline a second attempt must be sent to be
// of use, in nanoseconds.
func (e *Entry[L]) minRetryWindow() int64 { return int64(e.w.opts.margin(e.validity)) }

// timerDelay returns how long the timer of a waiting entry has to run: until its renewal
// or its deadline, whichever is earlier.
func (e *Entry[L]) timerDelay(now instant) time.Duration {
	return min(time.Duration(e.renewAt-now.mono), now.until(e.deadline()))
}

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
