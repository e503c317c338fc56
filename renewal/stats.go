// Statistics of a watchdog.

package renewal

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/schedule"
)

// Stats is a snapshot of a watchdog. The counters begin with New.
type Stats struct {
	Held     int // leases under the watchdog
	Due      int // of these, leases that wait for a free call of Renew
	InFlight int // calls of Renew under way, but early ones

	Batches      uint64 // calls of Renew that have returned
	Renewed      uint64 // confirmed renewals
	Unknown      uint64 // renewals without an answer
	NotOwned     uint64 // leases lost because the store denied the ownership
	Failed       uint64 // leases lost because their renewals failed
	Expired      uint64 // leases lost at their deadline
	LimitReached uint64 // leases that ended at their Grant.Until; they are not in Lost
	Overdue      uint64 // of Expired and LimitReached: ended by the watchdog because the timer engine was late
	DroppedHooks uint64 // calls of Hooks.BatchDone that were dropped
	DroppedLogs  uint64 // records that were dropped because the Logger was slow or failed; those of a lock.Client too if it has one Logger

	Oldest time.Duration // how long the lease that waits longest has been due
	Late   Histogram     // how late each renewal was sent, not counting the 2 ms in which a batch fills
}

// Histogram is the histogram of Stats.Late.
type Histogram = schedule.Histogram

// Lost returns the number of leases that were lost by a failure, so an alert may watch it. It
// does not count LimitReached.
func (s Stats) Lost() uint64 { return s.NotOwned + s.Failed + s.Expired }

// Stats returns a snapshot. It may be called after Close.
func (w *Watchdog[L]) Stats() Stats {
	w.mu.Lock()
	s := w.stats
	s.Held = w.held
	now := w.clock.now()
	for _, l := range w.lanes {
		s.InFlight += l.calls
		for _, q := range l.queues {
			s.Due += q.retries.len + q.fresh.len
			s.Oldest = max(s.Oldest, q.retries.age(now), q.fresh.age(now))
		}
	}
	losses := w.losses
	s.Overdue = w.monitor.overdue
	w.mu.Unlock()
	s.NotOwned, s.Failed, s.Expired, s.LimitReached = losses[ReasonNotOwned], losses[ReasonFailed], losses[ReasonExpired], losses[ReasonLimitReached]
	s.DroppedLogs = logging.Dropped(w.log)
	return s
}
