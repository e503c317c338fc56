package wheel

import (
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// handOver gives what the batch holds to the executor. The timers stay due, to be
// stopped or moved, until the executor comes to them.
func (c *core) handOver() {
	t := &c.turn
	for len(t.due) > 0 {
		s, id := t.shard, t.due[0]
		t.due = t.due[1:]
		c.executor(func() { c.runOn(s, id) })
	}
}

// runOn runs one timer on a goroutine of the executor, if it is still due.
func (c *core) runOn(s *shard, id uint64) {
	task, _, tick, _ := s.claim(0, []uint64{id})
	if task == nil {
		return
	}
	began := time.Since(c.base)
	t := tally{}
	t.begin(began - c.end(tick))
	returned := false
	defer func() { // apart from recovered, as OnPanic may end the goroutine, too
		t.longest = time.Since(c.base) - began
		c.stats.add(&t)
		s.finish(id)
	}()
	defer func() {
		if !returned {
			c.recovered(task, recover())
		}
	}()
	task.Run(schedule.NewTimer(s, id))
	returned = true
}

// finish ends the run of a timer on another goroutine than the worker's.
func (s *shard) finish(id uint64) {
	s.mu.Lock()
	s.end(id)
	visit := s.publish()
	s.mu.Unlock()
	s.core.expect(visit)
}
