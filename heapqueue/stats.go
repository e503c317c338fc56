// Statistics of a Scheduler.

package heapqueue

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/schedule"
)

// Stats returns a consistent snapshot. It can be called at any time, also during Run and
// after Close. Running is at least 1 ns while a Run is in progress.
func (s *Scheduler) Stats() schedule.Stats {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	stats := s.stats
	stats.Pending, stats.Wakeups, stats.DroppedLogs = s.queue.items.len(), s.queue.wakeups, logging.Dropped(s.log)
	if stats.Fired > 0 {
		stats.LateMean = time.Duration(s.lateSum / float64(stats.Fired))
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
	h, now := &q.items, s.clock()
	state := seam.HeapState{Timers: q.items.len()}
	for first := root; first < len(h.entries) && len(state.Levels) < inspectedLevels; first = arity*first - 8 {
		var level []time.Duration
		for _, e := range h.entries[first:min(arity*first-8, len(h.entries))] {
			level = append(level, time.Duration(e.at-now))
		}
		state.Levels = append(state.Levels, level)
	}
	return state
}
