// Statistics of a Scheduler.

package heapqueue

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// counters are the counters behind Stats. They are guarded by queue.mu.
type counters struct {
	fired, panics    uint64
	lateMax, longest time.Duration
	lateSum          float64 // ns
	late             schedule.Histogram
}

// begin counts a Run that begins late by the given time.
func (c *counters) begin(late time.Duration) {
	c.fired++
	c.lateMax = max(c.lateMax, late)
	c.lateSum += float64(late)
	c.late.Add(late)
}

// Stats returns a consistent snapshot. It can be called at any time, also during Run and
// after Close. Running is at least 1 ns while a Run is in progress.
func (s *Scheduler) Stats() schedule.Stats {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	c := &s.stats
	stats := schedule.Stats{
		Pending: s.queue.items.len(),
		Fired:   c.fired, Panics: c.panics, Wakeups: s.queue.wakeups,
		LateMax: c.lateMax, Late: c.late, LongestTask: c.longest,
		DroppedLogs: logging.Dropped(s.log),
	}
	if c.fired > 0 {
		stats.LateMean = time.Duration(c.lateSum / float64(c.fired))
	}
	now := s.clock()
	for i := range s.runs {
		if r := &s.runs[i]; r.task != nil {
			stats.Running = max(stats.Running, time.Duration(now-r.began), 1)
		}
	}
	return stats
}

func init() {
	seam.InspectHeap = func(s any) seam.HeapState { return s.(*Scheduler).inspect() }
}

// inspectedLevels bounds how long inspect holds the mutex: five levels have 341 entries.
const inspectedLevels = 5

// inspect returns the upper levels of the heap. A timer that is overdue has a negative time.
func (s *Scheduler) inspect() seam.HeapState {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	h, now := &q.items.heap, s.clock()
	state := seam.HeapState{Timers: q.items.len(), Batch: len(h.batch) - h.next}
	for first := root; first < len(h.entries) && len(state.Levels) < inspectedLevels; first = arity*first - 8 {
		var level []time.Duration
		for _, e := range h.entries[first:min(arity*first-8, len(h.entries))] {
			level = append(level, time.Duration(e.at-now))
		}
		state.Levels = append(state.Levels, level)
	}
	return state
}
