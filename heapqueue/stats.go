package heapqueue

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/schedule"
)

// Stats are the counters of a Scheduler.
type Stats = schedule.Stats

// counters are the counters behind Stats. They are guarded by queue.mu.
type counters struct {
	fired, panics    uint64
	lateMax, longest time.Duration
	lateSum          float64 // ns
}

// begin counts a Run that begins late by the given time.
func (c *counters) begin(late time.Duration) {
	c.fired++
	c.lateMax = max(c.lateMax, late)
	c.lateSum += float64(late)
}

// Stats returns a consistent snapshot. It can be called at any time, also during Run and
// after Close. Running is at least 1 ns while a Run is in progress.
func (s *Scheduler) Stats() Stats {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	c := &s.stats
	stats := Stats{
		Pending: s.queue.items.len(),
		Fired:   c.fired, Panics: c.panics, Wakeups: s.queue.wakeups,
		LateMax: c.lateMax, LongestTask: c.longest,
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
