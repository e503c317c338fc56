// Statistics of a wheel.

package wheel

import (
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
	wakeups    atomic.Uint64
	began      atomic.Int64 // start of the Run in progress, in ns since core.base, or idle
	submitting atomic.Int64 // the same for calls of Options.Executor

	mu      sync.Mutex     // guards the fields below
	runs    schedule.Stats // Fired, Panics, LateMax, Late and LongestTask
	lateSum float64        // in ns, which overflow an int64
}

// idle is the value of stats.began while no Run is in progress.
const idle = -1

// add counts Runs with the lateness of each and the duration of the longest. The worker calls it once per
// batch.
func (s *stats) add(late []time.Duration, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs.Fired += uint64(len(late))
	s.runs.LongestTask = max(s.runs.LongestTask, longest)
	for _, d := range late {
		s.runs.LateMax = max(s.runs.LateMax, d)
		s.runs.Late.Add(d)
		s.lateSum += float64(d)
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
	c.stats.mu.Lock()
	s := c.stats.runs
	if s.Fired > 0 {
		s.LateMean = time.Duration(c.stats.lateSum / float64(s.Fired))
	}
	c.stats.mu.Unlock()
	s.Wakeups, s.DroppedLogs, s.Pending = c.stats.wakeups.Load(), logging.Dropped(c.log), c.pending()
	if began := c.stats.began.Load(); began != idle {
		s.Running = max(time.Since(c.base)-time.Duration(began), 1)
	}
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
