// Noticing tasks that block all workers.

package heapqueue

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
)

// needCheck has the workers checked if none is free for a new timer. It is called with
// queue.mu held.
func (s *Scheduler) needCheck() {
	if s.queue.waiters.first == nil {
		s.blocked.Need()
	}
}

// checkWorkers reports tasks that block all workers while another timer is due. A check
// counts only if the one before found the same runs, because a single one could follow a
// pause of the whole process. The next check comes when the duration has doubled.
// checkWorkers runs on a goroutine of s.blocked.
func (s *Scheduler) checkWorkers() (next time.Duration) {
	q := &s.queue
	q.mu.Lock()
	now, last := s.clock(), s.stalled
	s.stalled = never
	latest, longest, busy := int64(0), (*run)(nil), 0
	for i := range s.runs {
		if r := &s.runs[i]; r.task != nil {
			busy++
			latest = max(latest, r.began)
			if longest == nil || r.began < longest.began {
				longest = r
			}
		}
	}
	first, waits := q.items.first()
	if busy == 0 || busy < len(s.runs) || !waits { // the next claim or Schedule needs a check again
		q.mu.Unlock()
		return 0
	}
	if first.at > now {
		q.mu.Unlock()
		return time.Duration(min(first.at-now, math.MaxInt64-int64(periodic.Interval))) + periodic.Interval
	}
	s.stalled = latest
	lasts, late := time.Duration(now-latest), time.Duration(now-first.at)
	task, pending := longest.task, q.items.len()
	q.mu.Unlock()
	if last != latest {
		return periodic.Interval
	}
	logging.Condition(s.log, "heapqueue: tasks block all workers, so timers are late",
		slog.Duration("lasts", lasts), slog.Duration("late", late), slog.String("task", fmt.Sprintf("%T", task)),
		slog.Int("workers", busy), slog.Int("pending", pending))
	return max(late, periodic.Interval)
}
