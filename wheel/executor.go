// Tasks that run on the executor of the user.

package wheel

import (
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// submitBatch passes the collected timers to the executor. A timer stays ready, so it
// can be stopped or moved, until the executor calls its function.
func (c *core) submitBatch() {
	w := &c.worker
	c.stats.submitting.Store(int64(w.clock))
	defer c.stats.submitting.Store(idle)
	for len(w.due) > 0 {
		s, id := w.shard, w.due[0]
		w.due = w.due[1:]
		if s.closesChannel(id) {
			c.runOnExecutor(s, id) // never blocks
			continue
		}
		c.executor(func() { c.runOnExecutor(s, id) })
	}
}

// runOnExecutor runs a timer on the goroutine of the executor, if it is still ready.
func (c *core) runOnExecutor(s *shard, id uint64) {
	task, _, tick, _ := s.nextRun(0, []uint64{id})
	if task == nil {
		return
	}
	began := time.Since(c.base)
	late := []time.Duration{began - c.tickEnd(tick)}
	returned := false
	defer func() { // a second defer, because OnPanic may call runtime.Goexit
		c.stats.add(late, time.Since(c.base)-began)
		s.endRun(id)
	}()
	defer func() {
		if !returned {
			c.reportPanic(task, recover())
		}
	}()
	task.Run(schedule.NewTimer(s, id))
	returned = true
}
