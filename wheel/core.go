// What the shards of a wheel share, and what its worker keeps reachable.

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
