// Noticing a task or an executor that blocks the wheel.

package wheel

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
)

// checkWorker reports a task that blocks the worker, or an executor that does. The task is
// the same as in the last check if it began at the same instant. The next check comes when
// its duration has doubled. checkWorker runs on a goroutine of core.blocked.
func (c *core) checkWorker() (next time.Duration) {
	began, executor := c.stats.began.Load(), false
	if began == idle {
		began, executor = c.stats.submitting.Load(), true
	}
	last := c.stalled.Swap(began)
	switch {
	case began == idle && c.sleep.Load() != notSleeping:
		return 0
	case began == idle || began != last:
		return periodic.Interval
	}
	lasts := time.Since(c.base) - time.Duration(began)
	c.reportStall(lasts, executor)
	return lasts
}

func (c *core) reportStall(d time.Duration, executor bool) {
	lasts, pending := slog.Duration("lasts", d), slog.Int("pending", c.pending())
	if executor {
		logging.Condition(c.log, "wheel: Options.Executor blocks the wheel, so its timers are late", lasts, pending)
		return
	}
	logging.Condition(c.log, "wheel: a task blocks the wheel, so its timers are late",
		lasts, slog.Any("task", runningTask{c}), pending)
}

// runningTask is the type of the task whose Run is in progress. It is looked up only if the
// record is written, because that takes a walk through a shard.
type runningTask struct{ core *core }

// LogValue returns the type, or "" if the Run has returned.
func (t runningTask) LogValue() slog.Value {
	name, c := "", t.core
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if s.running > 0 {
			s.each(func(n *node) {
				if n.running() {
					name = fmt.Sprintf("%T", n.task)
				}
			})
		}
		s.mu.Unlock()
	}
	return slog.StringValue(name)
}
