package wheel

import (
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/leasewheel/leasewheel/schedule"
)

// batchLen bounds how many timers are looked at under one hold of a lock.
const batchLen = 256

// core is all of a wheel that its worker keeps alive. It is apart from Wheel so
// that a Wheel dropped without Close is noticed.
//
// One worker goroutine serves all shards, tick by tick, and sleeps when nothing
// is due. An insertion before the tick that it sleeps to wakes it; none can be
// missed, because the worker publishes that tick before it reads the shards'
// hints once more, and an inserter publishes its hint before it reads the tick.
type core struct {
	base       time.Time // tick 0
	tick       time.Duration
	fine       uint
	maxPending int64
	executor   func(run func())
	onPanic    func(task schedule.Task, value any, stack []byte)
	logger     *slog.Logger // nil: slog.Default()
	shards     []shard
	shardShift uint // picks a shard from a 64-bit hash

	started atomic.Bool   // the worker was started
	closed  atomic.Bool   // Close was called
	room    atomic.Int64  // timers that count against maxPending, kept only if there is one
	sleep   atomic.Int64  // the tick the worker sleeps to; awake while it does not
	wake    chan struct{} // holds one token: look again
	start   sync.Once     // starts the worker, or rules it out
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the worker has ended, or never will begin

	turn  turn // owned by the worker
	stats stats
}

// awake is the tick that a worker which does not sleep is said to sleep to. It is before
// that of every timer, so nobody wakes the worker.
const awake = 0

// turn is where the worker stands. It survives a task that ends the worker's
// goroutine by runtime.Goexit.
type turn struct {
	shard *shard
	run   uint64   // id of the timer whose Run is in progress or was last
	due   []uint64 // what is left of the batch: ids
	batch [batchLen]uint64
	clock time.Duration // the last reading, since base
	tally tally
}

// ticks returns the last tick that is over and the tick for a delay of d from
// now, the first one that does not end before it.
func (c *core) ticks(d time.Duration) (now, due int64) {
	elapsed := int64(time.Since(c.base))
	at := elapsed + int64(max(d, 0))
	if at < 0 { // past the end of the clock
		at = math.MaxInt64
	}
	tick := int64(c.tick)
	now, due = elapsed/tick, at/tick
	if at%tick != 0 {
		due++
	}
	return now, due
}

// end returns the instant, since base, at which a tick is over.
func (c *core) end(tick int64) time.Duration {
	if tick > math.MaxInt64/int64(c.tick) {
		return math.MaxInt64
	}
	return time.Duration(tick) * c.tick
}

// pick returns the caller's shard. It hashes the address of the caller's stack:
// that costs nothing and keeps a goroutine with its shard, so that the lock stays
// in the cache of its core. A shard at random is as slow as one lock for all.
func (c *core) pick() *shard {
	var here byte
	hash := uint64(uintptr(unsafe.Pointer(&here))) >> 12 * 0x9e3779b97f4a7c15
	return &c.shards[hash>>c.shardShift]
}

// reserve takes room for a timer, vacate gives it back.
func (c *core) reserve() bool {
	if c.maxPending == 0 {
		return true
	}
	for {
		taken := c.room.Load()
		if taken >= c.maxPending {
			return false
		}
		if c.room.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

func (c *core) vacate() {
	if c.maxPending != 0 {
		c.room.Add(-1)
	}
}

// expect makes sure that the worker is awake at the given tick.
func (c *core) expect(tick int64) {
	if tick >= c.sleep.Load() {
		return
	}
	// Before its first sleep the worker sleeps to never, so the first timer
	// comes by here and starts it.
	c.start.Do(func() {
		c.started.Store(true)
		go c.work()
	})
	select {
	case c.wake <- struct{}{}:
	default: // a token is there already
	}
}

// work is the worker. Each task runs on it.
func (c *core) work() {
	ended := false
	defer func() {
		if ended {
			close(c.done)
			return
		}
		go c.work() // a task called runtime.Goexit: the next goroutine goes on from c.turn
	}()
	timer := time.NewTimer(math.MaxInt64)
	timer.Stop()
	defer timer.Stop()
	c.finishTurn()
	for !c.closed.Load() {
		next := c.earliest()
		if c.read(); c.end(next) > c.turn.clock {
			c.rest(next, timer)
			continue
		}
		c.serve(next)
	}
	ended = true
}

// read reads the clock.
func (c *core) read() {
	c.turn.clock = time.Since(c.base)
}

// earliest returns a tick before which no shard has work.
func (c *core) earliest() int64 {
	tick := int64(never)
	for i := range c.shards {
		tick = min(tick, c.shards[i].hint.Load())
	}
	return tick
}

// rest sleeps until the given tick is over, an earlier timer comes, or Close.
func (c *core) rest(tick int64, timer *time.Timer) {
	c.sleep.Store(tick)
	defer c.sleep.Store(awake)
	if c.earliest() < tick {
		return
	}
	if tick != never { // or else nothing is to keep the process, or a test's bubble, waiting
		timer.Reset(c.end(tick) - c.turn.clock)
	}
	select {
	case <-timer.C:
	case <-c.wake:
	case <-c.stop:
	}
	timer.Stop()
	c.stats.wakeups.Add(1)
}

// serve runs what is due by the given tick in all shards.
func (c *core) serve(tick int64) {
	for i := range c.shards {
		s := &c.shards[i]
		for more := true; more && s.hint.Load() <= tick; {
			c.turn.shard = s
			c.turn.due, more = s.take(tick, c.turn.batch[:0])
			c.finishTurn()
		}
	}
}

// finishTurn runs what is left of the batch.
func (c *core) finishTurn() {
	t := &c.turn
	switch {
	case t.shard == nil:
		return
	case c.executor != nil:
		c.handOver()
		return
	}
	for {
		var task schedule.Task
		var tick int64
		task, t.run, tick, t.due = t.shard.claim(t.run, t.due)
		if task == nil {
			c.stats.began.Store(idle)
			c.stats.add(&t.tally)
			return
		}
		c.run(task, schedule.NewTimer(t.shard, t.run), tick)
	}
}

// run runs one task and notes how late it began and how long it took.
func (c *core) run(task schedule.Task, timer schedule.Timer, tick int64) {
	t := &c.turn
	t.tally.begin(t.clock - c.end(tick))
	c.stats.began.Store(int64(t.clock))
	returned := false
	defer func() {
		if !returned {
			c.recovered(task, recover())
		}
		began := t.clock
		c.read()
		t.tally.longest = max(t.tally.longest, t.clock-began)
	}()
	task.Run(timer)
	returned = true
}

// recovered reports a panic; a nil value is a runtime.Goexit, which is nobody's
// fault.
func (c *core) recovered(task schedule.Task, value any) {
	if value == nil {
		return
	}
	c.stats.panics.Add(1)
	stack := debug.Stack()
	if c.onPanic != nil {
		c.onPanic(task, value, stack)
		return
	}
	c.log().Error("wheel: task panicked", "task", fmt.Sprintf("%T", task), "panic", value, "stack", string(stack))
}

func (c *core) log() *slog.Logger {
	if c.logger == nil {
		return slog.Default()
	}
	return c.logger
}
