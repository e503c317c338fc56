// Statistics of a wheel.

package wheel

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// stats holds the counters of a wheel. Any goroutine may read and update them.
type stats struct {
	fired, panics, wakeups atomic.Uint64
	lateSum                atomic.Uint64 // bits of a float64, because the sum in ns overflows an int64
	lateMax, longest       atomic.Int64  // in ns
	began                  atomic.Int64  // start of the Run in progress, in ns since core.base, or idle
	submitting             atomic.Int64  // the same for calls of Options.Executor

	lateMu sync.Mutex // guards late
	late   schedule.Histogram
}

// idle is the value of stats.began while no Run is in progress.
const idle = -1

// batchStats are the counters of one goroutine that runs tasks. The worker adds its own
// to stats once per batch.
type batchStats struct {
	fired            uint64
	lateSum          float64 // in ns
	lateMax, longest time.Duration
}

// begin counts a Run that starts late by the given time.
func (t *batchStats) begin(late time.Duration) {
	t.fired++
	t.lateSum += float64(late)
	t.lateMax = max(t.lateMax, late)
}

// add adds the counters in t and clears them.
func (s *stats) add(t *batchStats) {
	if t.fired == 0 {
		return
	}
	s.fired.Add(t.fired)
	for old := s.lateSum.Load(); !s.lateSum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+t.lateSum)); {
		old = s.lateSum.Load()
	}
	storeMax(&s.lateMax, int64(t.lateMax))
	storeMax(&s.longest, int64(t.longest))
	*t = batchStats{}
}

// addLate adds the lateness of some Runs to the histogram.
func (s *stats) addLate(runs []time.Duration) {
	s.lateMu.Lock()
	defer s.lateMu.Unlock()
	for _, late := range runs {
		s.late.Add(late)
	}
}

// storeMax sets a to v if v is greater.
func storeMax(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); {
		old = a.Load()
	}
}

// Stats returns a snapshot. It may be called after Close. The lateness counts from the end of the tick in
// which a timer was due. Running is 0 with an Executor.
//
// Pending never exceeds Options.MaxPending. Without that limit, Stats counts the shards
// of the wheel one after another. A timer that is scheduled or stopped meanwhile may then
// be missed, and one that is replaced may count twice.
//
// The wheel updates the other counters after each batch of at most 256 tasks, and with an
// Executor after each task. Running is always up to date, so it shows a task that blocks
// the wheel.
func (w *Wheel) Stats() schedule.Stats {
	c := w.core
	if c == nil {
		return schedule.Stats{}
	}
	s := schedule.Stats{
		Fired:       c.stats.fired.Load(),
		Panics:      c.stats.panics.Load(),
		Wakeups:     c.stats.wakeups.Load(),
		LateMax:     time.Duration(c.stats.lateMax.Load()),
		LongestTask: time.Duration(c.stats.longest.Load()),
		DroppedLogs: logging.Dropped(c.log),
	}
	c.stats.lateMu.Lock()
	s.Late = c.stats.late
	c.stats.lateMu.Unlock()
	if s.Fired > 0 {
		s.LateMean = time.Duration(math.Float64frombits(c.stats.lateSum.Load()) / float64(s.Fired))
	}
	if began := c.stats.began.Load(); began != idle {
		s.Running = max(time.Since(c.base)-time.Duration(began), 1)
	}
	s.Pending = c.pending()
	return s
}

// pending returns the number of timers that are pending or running.
func (c *core) pending() int {
	if c.maxPending != 0 {
		return int(c.taken.Load())
	}
	pending := 0
	for i := range c.shards {
		pending += c.shards[i].pending()
	}
	return pending
}

func init() {
	seam.InspectWheel = func(w any) seam.WheelState { return w.(*Wheel).core.inspect() }
}

// inspect counts the timers of each bucket. It locks one shard at a time, for a few
// nanoseconds per timer.
func (c *core) inspect() seam.WheelState {
	now, _ := c.ticks(0)
	var state seam.WheelState
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if state.Levels == nil && s.heads != nil {
			state.Levels = s.levels(now, c.tick)
		}
		s.each(func(n *node) {
			if n.queued() {
				level, index := s.position(n.bucket)
				state.Levels[level].Timers[index]++
			}
		})
		s.mu.Unlock()
	}
	for last := len(state.Levels) - 1; last > 1 && !slices.ContainsFunc(state.Levels[last].Timers, func(n int) bool { return n > 0 }); last-- {
		state.Levels = state.Levels[:last]
	}
	return state
}
