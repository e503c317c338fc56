// The core of a wheel: its worker, what that keeps reachable, and what the shards share.

package wheel

import (
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
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

// core is everything that the worker of a wheel keeps reachable. A Wheel only points to
// it, so that the garbage collector can find a Wheel that was dropped without Close.
type core struct {
	base       time.Time // start of tick 0
	tick       time.Duration
	level0Bits uint
	maxPending int64
	executor   func(run func())
	onPanic    func(task schedule.Task, value any, stack []byte)
	log        *slog.Logger
	shards     []shard
	shardShift uint // maps a 64-bit hash to a shard

	started atomic.Bool   // the worker was started
	closed  atomic.Bool   // Close was called
	taken   atomic.Int64  // timers that count against maxPending; unused without a limit
	sleep   atomic.Int64  // tick that the worker sleeps until; notSleeping while it is awake
	wake    chan struct{} // holds a token if the worker must look for timers again
	start   sync.Once     // starts the worker, or prevents that
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the worker has returned, or will never start

	after   sharedTicks
	worker  workerState // owned by the worker
	stats   stats
	blocked periodic.Check // checks that no task blocks the worker
	stalled atomic.Int64   // the stats.began that the last check has seen
	dropped runtime.Cleanup
}

func newCore(o *Options) *core {
	// Two goroutines that use one shard at the same time take two to six times as long as
	// on different ones. With 16 shards per CPU that is rare.
	shardBits := uint(bits.Len(uint(min(shardsPerCPU*runtime.GOMAXPROCS(0), maxShards) - 1)))
	c := &core{
		base:       time.Now(),
		tick:       o.Tick,
		level0Bits: uint(bits.Len(uint(o.Buckets - 1))),
		maxPending: int64(o.MaxPending),
		executor:   o.Executor,
		onPanic:    o.OnPanic,
		log:        logging.New(o.Logger),
		shards:     make([]shard, 1<<shardBits),
		shardShift: 64 - shardBits,
		wake:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		done:       make(chan struct{}),
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.core = c
		s.runReturned.L = &s.mu
		s.nextExpiry, s.nextCascade = never, never
		s.publishHint()
	}
	c.sleep.Store(never)
	c.stats.began.Store(idle)
	c.stats.submitting.Store(idle)
	c.stalled.Store(idle)
	c.blocked.Init(c.checkWorker)
	return c
}

// ticks returns the last tick that is over, and the tick for a delay of d from now: the
// first one that does not end before the delay has passed.
func (c *core) ticks(d time.Duration) (now, due int64) {
	elapsed := int64(time.Since(c.base))
	at := elapsed + int64(max(d, 0))
	if at < 0 { // overflow: beyond the range of the clock
		at = math.MaxInt64
	}
	tick := int64(c.tick)
	now, due = elapsed/tick, at/tick
	if at%tick != 0 {
		due++
	}
	return now, due
}

// tickEnd returns the time from base to the end of a tick.
func (c *core) tickEnd(tick int64) time.Duration {
	if tick > math.MaxInt64/int64(c.tick) {
		return math.MaxInt64
	}
	return time.Duration(tick) * c.tick
}

// shard returns the shard for a new timer. A hash of the stack address chooses it. A goroutine keeps
// its shard while its stack does not move, so the lock of the shard stays in the cache of one CPU. A
// random shard would be as slow as a single lock.
func (c *core) shard() *shard {
	var local byte
	hash := uint64(uintptr(unsafe.Pointer(&local))) >> 12 * 0x9e3779b97f4a7c15
	return &c.shards[hash>>c.shardShift]
}

// reserve counts a new timer against maxPending. It returns false if the wheel is full.
func (c *core) reserve() bool {
	if c.maxPending == 0 {
		return true
	}
	for {
		taken := c.taken.Load()
		if taken >= c.maxPending {
			return false
		}
		if c.taken.CompareAndSwap(taken, taken+1) {
			return true
		}
	}
}

// unreserve undoes reserve for a timer that has ended.
func (c *core) unreserve() {
	if c.maxPending != 0 {
		c.taken.Add(-1)
	}
}

// reportPanic counts and reports the panic of a task. A nil value means that the task
// called runtime.Goexit, which is not an error.
func (c *core) reportPanic(task schedule.Task, value any) {
	if value == nil {
		return
	}
	c.stats.mu.Lock()
	c.stats.runs.Panics++
	c.stats.mu.Unlock()
	stack := debug.Stack()
	if c.onPanic != nil {
		c.onPanic(task, value, stack)
		return
	}
	c.log.Error("wheel: task panicked",
		slog.String("task", fmt.Sprintf("%T", task)), slog.Any("panic", value), slog.String("stack", string(stack)))
}

// reportDropped logs that a Wheel became garbage without Close while its worker runs.
// Nobody can close it any more.
func (c *core) reportDropped() {
	if c.closed.Load() || !c.started.Load() {
		return
	}
	c.log.Warn("wheel: Wheel was dropped without Close; its goroutine keeps running",
		slog.Int("pending", c.pending()))
}
