// The goroutine that sleeps until the next tick and runs due tasks.

package wheel

import (
	"math"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// One goroutine, the worker, runs the timers of all shards, tick by tick. While no timer
// is due it cascades, one batch at a time. It sleeps when there is nothing to cascade
// either.
//
// A new timer that is due before the tick that the worker sleeps until wakes the worker.
// No wake-up is lost: the worker stores core.sleep before it reads the hints of all
// shards again, and the goroutine that adds the timer stores the hint before it reads
// core.sleep.

// batchLen is the largest number of nodes that are looked at while a lock is held.
const batchLen = 256

// notSleeping is the value of core.sleep while the worker is awake. It is not after the
// tick of any timer, so no goroutine that adds a timer tries to wake the worker.
const notSleeping = 0

// workerState is the position of the worker in its work. It outlives the goroutine: if a
// task calls runtime.Goexit, a new goroutine continues from here.
type workerState struct {
	shard   *shard
	run     uint64   // id of the timer whose Run is in progress or was the last
	due     []uint64 // ids of the timers of the batch that are still to run
	batch   [batchLen]uint64
	clock   time.Duration   // last reading of the clock, since core.base
	late    []time.Duration // of the Runs of the batch
	longest time.Duration   // of the Runs of the batch
}

// work is the worker goroutine.
func (c *core) work() {
	returned := false
	defer func() {
		if returned {
			close(c.done)
			return
		}
		go c.work() // a task called runtime.Goexit
	}()
	timer := time.NewTimer(math.MaxInt64)
	timer.Stop()
	defer timer.Stop()
	c.runBatch() // what an earlier goroutine left
	for !c.closed.Load() {
		expiry, cascade, s := c.nextVisit()
		c.worker.clock = time.Since(c.base)
		switch {
		case c.tickEnd(expiry) <= c.worker.clock:
			c.blocked.Need()
			c.runExpired(expiry)
		case c.tickEnd(cascade) <= c.worker.clock:
			s.cascade(int64(c.worker.clock/c.tick), true)
		default:
			c.sleepUntil(min(expiry, cascade), timer)
		}
	}
	returned = true
}

// nextVisit returns a tick before which no timer is due in any shard, and the shard that
// can cascade first with the tick at which it can.
func (c *core) nextVisit() (expiry, cascade int64, first *shard) {
	expiry, cascade = never, never
	for i := range c.shards {
		s := &c.shards[i]
		expiry = min(expiry, s.expiryHint.Load())
		if tick := s.cascadeHint.Load(); tick < cascade {
			cascade, first = tick, s
		}
	}
	return expiry, cascade, first
}

// sleepUntil blocks until the given tick is over, an earlier timer was added, or Close was
// called.
func (c *core) sleepUntil(tick int64, timer *time.Timer) {
	c.sleep.Store(tick)
	defer c.sleep.Store(notSleeping)
	if expiry, cascade, _ := c.nextVisit(); min(expiry, cascade) < tick {
		return
	}
	if tick != never { // without a timer, a synctest bubble knows that the wheel is idle
		timer.Reset(c.tickEnd(tick) - c.worker.clock)
	}
	select {
	case <-timer.C:
	case <-c.wake:
	case <-c.stop:
	}
	timer.Stop()
	c.stats.wakeups.Add(1)
}

// wakeBy makes sure that the worker is awake at the given tick.
func (c *core) wakeBy(tick int64) {
	if tick >= c.sleep.Load() {
		return
	}
	// core.sleep is never until the worker first sleeps, so the first timer starts it.
	c.start.Do(func() {
		c.started.Store(true)
		go c.work()
	})
	select {
	case c.wake <- struct{}{}:
	default: // the channel holds a token already
	}
}

// runExpired runs the timers of all shards that are due by the given tick. Then it
// cascades as the quotas demand: if the next tick is due already, the worker is never
// idle.
func (c *core) runExpired(tick int64) {
	for i := range c.shards {
		s := &c.shards[i]
		for more := true; more && s.expiryHint.Load() <= tick; {
			c.worker.shard = s
			c.worker.due, more = s.collect(tick, c.worker.batch[:0])
			c.runBatch()
		}
	}
	for i := range c.shards {
		s := &c.shards[i]
		more := true
		for more && s.cascadeHint.Load() <= tick {
			more = s.cascade(tick, false)
		}
	}
}

// runBatch runs the collected timers that have not run yet.
func (c *core) runBatch() {
	w := &c.worker
	switch {
	case w.shard == nil:
		return
	case c.executor != nil:
		c.submitBatch()
		return
	}
	for {
		var task schedule.Task
		var tick int64
		task, w.run, tick, w.due = w.shard.nextRun(w.run, w.due)
		if task == nil {
			c.stats.began.Store(idle)
			c.stats.add(w.late, w.longest)
			w.late, w.longest = w.late[:0], 0
			return
		}
		c.runTask(task, schedule.NewTimer(w.shard, w.run), tick)
	}
}

// runTask runs a task and records its lateness and its duration.
func (c *core) runTask(task schedule.Task, timer schedule.Timer, tick int64) {
	w := &c.worker
	w.late = append(w.late, w.clock-c.tickEnd(tick))
	c.stats.began.Store(int64(w.clock))
	returned := false
	defer func() {
		if !returned {
			c.reportPanic(task, recover())
		}
		began := w.clock
		c.worker.clock = time.Since(c.base)
		w.longest = max(w.longest, w.clock-began)
	}()
	task.Run(timer)
	returned = true
}
