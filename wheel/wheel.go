// Package wheel is a hashed timing wheel: an engine for timers by the million,
// each of which costs a few dozen nanoseconds to arm and to stop, however many
// others are pending.
//
//	w, err := wheel.New(nil)
//	...
//	defer w.Close()
//	timer, err := w.Schedule(time.Second, task) // or schedule.AfterFunc(w, ...)
//	timer.Reset(time.Minute)
//	timer.Stop()
//
// It is in the tradition of Netty's HashedWheelTimer. A timer fires at the end of
// the tick in which it is due: never early, and late by a tick at most plus what
// the scheduler of the machine adds. The tick is the coalescing that you accept;
// it costs nothing while no timer is due, for the wheel sleeps straight to the
// next one. For timers exact to the clock's resolution see package heapqueue.
//
// A pending timer takes 40 bytes beside its task. The memory of those that are done
// serves later ones, and is given back when none is pending any more; one that stays,
// like that of [schedule.Every], may keep it.
//
// One wheel serves a whole process. Tasks run on its single goroutine, one after
// another, and must not block; [schedule.AfterFunc] gives a function a goroutine
// of its own, and Options.Executor does with all tasks as you say.
package wheel

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// Options configure a Wheel. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Tick is the width of a bucket, the greatest lateness by design. Default
	// 100 ms; at least 1 µs. Timers of one tick fire together, in any order.
	Tick time.Duration

	// Buckets is the number of buckets one tick wide, rounded up to a power of
	// two. Default 512; 64 to 1,048,576. Timers farther ahead than Buckets ticks
	// are filed in coarser buckets and moved once or a few times as they come
	// near, so the number hardly matters. A bucket takes 4 bytes in each shard in
	// use; there are four for each processor, rounded up to a power of two, and 256
	// at most.
	Buckets int

	// MaxPending bounds the number of timers; Schedule returns
	// schedule.ErrFull beyond it. Default 0: no limit.
	MaxPending int

	// Executor, if set, is given each task that is due, as a function that it must
	// call once, now or later, on any goroutine: go run(), or the queue of a pool.
	// Then tasks may block, and those of different timers may overlap and
	// overtake one another; the Run of one timer still never overlaps itself. The
	// timer can be stopped, moved and given back by Close until run is called, and
	// after that run does nothing. Executor is called on the wheel's goroutine and
	// must not block or panic. An allocation per firing is its price. Default: tasks
	// run on the wheel's own goroutine.
	Executor func(run func())

	// OnPanic is called with what a task panicked with, on the goroutine of the
	// task; it must not block or panic. Default: Logger gets an error record.
	OnPanic func(task schedule.Task, value any, stack []byte)

	// Logger is told of panics when there is no OnPanic, and of a wheel dropped
	// without Close. Default slog.Default(), as it is at that moment.
	Logger *slog.Logger
}

const (
	defaultTick    = 100 * time.Millisecond
	minTick        = time.Microsecond
	defaultBuckets = 512
	minBuckets     = 64
	maxBuckets     = 1 << 20
	maxShards      = 256
)

// Wheel is a hashed timing wheel. Make it with New and end it with Close: the zero
// Wheel takes no timer. Its methods are safe for concurrent use.
//
// Delays are measured on the monotonic clock, which stands still while the host
// is suspended.
type Wheel struct {
	core *core // nil in the zero Wheel
}

var _ schedule.Scheduler = (*Wheel)(nil)

// New returns a wheel, or an error that names the field of Options that is out of
// range. No goroutine runs before the first Schedule. A wheel must be closed;
// one that is dropped with its goroutine running is reported to the Logger.
func New(o *Options) (*Wheel, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	if opts.Tick == 0 {
		opts.Tick = defaultTick
	}
	if opts.Buckets == 0 {
		opts.Buckets = defaultBuckets
	}
	switch {
	case opts.Tick < minTick:
		return nil, fmt.Errorf("wheel: Options.Tick must be at least %v, got %v", minTick, opts.Tick)
	case opts.Buckets < minBuckets || opts.Buckets > maxBuckets:
		return nil, fmt.Errorf("wheel: Options.Buckets must be %d to %d, got %d", minBuckets, maxBuckets, opts.Buckets)
	case opts.MaxPending < 0:
		return nil, fmt.Errorf("wheel: Options.MaxPending must not be negative, got %d", opts.MaxPending)
	}
	w := &Wheel{core: newCore(&opts)}
	runtime.AddCleanup(w, (*core).dropped, w.core)
	return w, nil
}

func newCore(o *Options) *core {
	// Four shards for each processor make it unlikely that two goroutines at
	// work share one.
	shardBits := uint(bits.Len(uint(min(4*runtime.GOMAXPROCS(0), maxShards) - 1)))
	c := &core{
		base:       time.Now(),
		tick:       o.Tick,
		fine:       uint(bits.Len(uint(o.Buckets - 1))),
		maxPending: int64(o.MaxPending),
		executor:   o.Executor,
		onPanic:    o.OnPanic,
		logger:     o.Logger,
		shards:     make([]shard, 1<<shardBits),
		shardShift: 64 - shardBits,
		wake:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		done:       make(chan struct{}),
	}
	for i := range c.shards {
		c.shards[i].core = c
		c.shards[i].ended.L = &c.shards[i].mu
		c.shards[i].next = never
		c.shards[i].hint.Store(never)
	}
	c.sleep.Store(never)
	c.stats.began.Store(idle)
	return c
}

// Schedule implements [schedule.Scheduler]: it arranges for task.Run to be called
// once, at the end of the tick in which d from now falls. That of the zero Wheel
// returns an error.
func (w *Wheel) Schedule(d time.Duration, task schedule.Task) (schedule.Timer, error) {
	if task == nil {
		return schedule.Timer{}, schedule.ErrNilTask
	}
	c := w.core
	if c == nil {
		return schedule.Timer{}, errZeroWheel
	}
	if !c.reserve() {
		if c.closed.Load() {
			return schedule.Timer{}, schedule.ErrClosed
		}
		return schedule.Timer{}, schedule.ErrFull
	}
	timer, err := c.pick().schedule(d, task)
	if err != nil {
		c.vacate()
	}
	return timer, err
}

var errZeroWheel = errors.New("wheel: the Wheel was not made by New")

// Tick returns the width of a tick, 0 of the zero Wheel.
func (w *Wheel) Tick() time.Duration {
	if w.core == nil {
		return 0
	}
	return w.core.tick
}

// Close stops the wheel, waits for the tasks that are running, if any, and returns
// the tasks that were still to run, in no particular order. Once it has returned no task
// starts; Schedule returns schedule.ErrClosed, and all timers are dead. Close is
// safe to call twice and concurrently; each task is returned to one caller only.
//
// Close must not be called from inside a Task, which it would wait for; a task
// may say go w.Close().
func (w *Wheel) Close() []schedule.Task {
	c := w.core
	if c == nil {
		return nil
	}
	first := c.closed.CompareAndSwap(false, true)
	for i := range c.shards {
		c.shards[i].shut()
	}
	if first {
		close(c.stop)
	}
	c.start.Do(func() { close(c.done) }) // never started: nobody to wait for
	<-c.done
	var tasks []schedule.Task
	for i := range c.shards {
		tasks = append(tasks, c.shards[i].drain()...)
	}
	runtime.KeepAlive(w) // a wheel being closed is not dropped
	return tasks
}

// dropped reports a wheel that became garbage without Close while its worker
// runs on, perhaps with timers that nobody can stop any more.
func (c *core) dropped() {
	if c.closed.Load() || !c.started.Load() {
		return
	}
	pending := 0
	for i := range c.shards {
		pending += c.shards[i].count()
	}
	c.log().Warn("wheel: dropped without Close", "pending", pending)
}
