// Package wheel is a hashed timing wheel, a timer engine for millions of timers.
//
// Most timers are timeouts that are stopped before they fire. Package time keeps them in
// heaps, and allocates each. Here a timer is an entry of a bucket in a slab, so that to
// schedule and to stop it takes constant time and no allocation. Beside 1,000,000 others that
// takes 125 ns of CPU, and with package time 549 ns. A fire takes 0.4 instead of 5.8 µs when
// 1,000,000 come in a second, a pending timer 40 instead of 129 bytes, and a garbage
// collection with 1,000,000 of them 12 instead of 76 ms. A timeout in a select statement is
// cheaper still, because all callers of a tick share a channel: [Wheel.After] takes 17 ns more
// than reading the clock, where time.After takes 221 ns more and 248 bytes. Contexts with a
// timeout are in package schedule. The price is precision: a timer fires at the end of its
// tick. The page [benchmarks] has the figures, with those of other libraries.
//
//	w, err := wheel.New(nil)
//	...
//	defer w.Close()
//	timer, err := w.Schedule(time.Second, task) // or schedule.AfterFunc(w, ...)
//	timer.Reset(time.Minute)
//	timer.Stop()
//
// The wheel is modelled on Netty's HashedWheelTimer. It divides time into ticks, and a
// timer fires at the end of the tick in which it is due. So a timer never fires early,
// and it fires late by at most one tick plus the delay of the operating system's
// scheduler. The wheel sleeps until the next timer is due, so ticks without timers cost
// nothing. For timers as exact as the clock see package heapqueue.
//
// A pending timer takes 40 bytes in addition to its task. The memory of finished timers
// is reused. It is released when a shard of the wheel has no timers, so a single
// long-lived timer, such as one from [schedule.Every], keeps the memory of its shard.
//
// One wheel can serve a whole process. Tasks run on its single goroutine, one after
// another, and must not block. [schedule.AfterFunc] runs a function in its own
// goroutine, and Options.Executor runs every task wherever you choose.
//
// The page [timers] compares the engines. The program [timeouts] uses a wheel.
//
// [benchmarks]: https://github.com/leasewheel/leasewheel/blob/main/docs/BENCHMARKS.md#timer-engines
// [timers]: https://github.com/leasewheel/leasewheel/blob/main/docs/TIMERS.md
// [timeouts]: https://github.com/leasewheel/leasewheel/blob/main/examples/timeouts/main.go
package wheel

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/schedule"
)

// Options configure a Wheel. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Tick is the resolution of the wheel: a timer fires up to one Tick late. Timers
	// of one tick fire together, in any order. The default is 100 ms, the minimum 1 µs.
	Tick time.Duration

	// Buckets is the number of ticks that have buckets of their own, from 64 to 1,048,576.
	// It is rounded up to a power of two. The default is 512.
	//
	// Timers more than Buckets ticks ahead are kept in wider buckets. They move to
	// narrower ones as their time approaches, a few at a time, so that no due timer waits.
	// Buckets does not affect when timers fire, and hardly affects what they cost.
	//
	// Each shard of the wheel takes 16 bytes for each of these ticks and 10 KB. The wheel
	// has 16 shards per CPU, rounded up to a power of two and at most 256. Only the shards
	// in use count.
	Buckets int

	// MaxPending limits the number of timers. At the limit Schedule returns
	// schedule.ErrFull, which defines the timers that count. The default 0 means no limit.
	MaxPending int

	// Executor, if not nil, receives a function for each due task and must call it
	// exactly once, now or later, on any goroutine. Examples are go run() and the queue
	// of a worker pool. Tasks may then block, and tasks of different timers may overlap
	// and overtake one another. The Run of one timer still never overlaps itself. Until
	// the function is called, the timer can be stopped and reset, and Close returns its
	// task. The function then does nothing.
	//
	// The wheel calls Executor on its own goroutine, so Executor must not block or
	// panic. Each call takes one allocation. The default is to run tasks on the wheel's
	// goroutine.
	Executor func(run func())

	// OnPanic is called with the value and the stack of a task's panic, on the goroutine
	// that runs the task. It must not block or panic. The default is to log an error.
	OnPanic func(task schedule.Task, value any, stack []byte)

	// Logger receives an error for each panic if OnPanic is nil. It receives warnings about
	// a wheel that was dropped without Close, and about a task or an Executor that blocks
	// the wheel. Nil means slog.Default() at the time of each record.
	//
	// A task blocks the wheel if it runs for two seconds. A runtime timer notices it, so
	// the warning comes while the task is still running. It comes again when the duration
	// has doubled, at most once a minute. No timer waits for the Logger: a goroutine writes the
	// records, and Stats.DroppedLogs counts those that did not fit into its queue.
	Logger *slog.Logger
}

const (
	defaultTick    = 100 * time.Millisecond
	minTick        = time.Microsecond
	defaultBuckets = 512
	minBuckets     = 64
	maxBuckets     = 1 << 20
	shardsPerCPU   = 16
	maxShards      = 256
)

// Wheel is a hashed timing wheel. Use New to create one and Close to stop it. Its methods
// are safe for concurrent use. Schedule of the zero Wheel returns an error.
//
// Delays are measured on the monotonic clock, which stops while the host is suspended.
type Wheel struct {
	core *core // nil in the zero Wheel
}

var _ schedule.Scheduler = (*Wheel)(nil)

// New returns a wheel, or an error that names the invalid field of Options. The wheel
// starts its goroutine with the first Schedule and must be closed. A wheel that becomes
// garbage while its goroutine is running is reported to the Logger.
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
		return nil, fmt.Errorf("wheel: Options.Buckets must be from %d to %d, got %d", minBuckets, maxBuckets, opts.Buckets)
	case opts.MaxPending < 0:
		return nil, fmt.Errorf("wheel: Options.MaxPending must not be negative, got %d", opts.MaxPending)
	}
	w := &Wheel{core: newCore(&opts)}
	w.core.dropped = runtime.AddCleanup(w, (*core).reportDropped, w.core)
	return w, nil
}

func init() {
	logging.DisownWheel = func(w any) { w.(*Wheel).core.dropped.Stop() }
}

// Schedule implements [schedule.Scheduler]. It calls task.Run once, at the end of the tick
// that contains the instant d from now. It does not allocate, unless the memory of
// finished timers is too small for another one.
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
	now, tick := c.ticks(d)
	timer, err := c.shard().schedule(now, tick, task)
	if err != nil {
		c.unreserve()
	}
	return timer, err
}

var errZeroWheel = errors.New("wheel: the Wheel was not made by New")

// Tick returns the width of a tick. It returns 0 for the zero Wheel.
func (w *Wheel) Tick() time.Duration {
	if w.core == nil {
		return 0
	}
	return w.core.tick
}

// Close stops the wheel, waits for running tasks, and returns the tasks of all timers that
// were still pending, in no particular order. Package schedule has its contract. A Task must
// not call Close, because Close waits for that task. It may use go w.Close().
func (w *Wheel) Close() []schedule.Task {
	c := w.core
	if c == nil {
		return nil
	}
	first := c.closed.CompareAndSwap(false, true)
	for i := range c.shards {
		c.shards[i].close()
	}
	if first {
		close(c.stop)
	}
	c.start.Do(func() { close(c.done) }) // the worker was never started
	<-c.done
	c.blocked.Close()
	var tasks []schedule.Task
	for i := range c.shards {
		tasks = append(tasks, c.shards[i].drain()...)
	}
	schedule.NotifyClosed(tasks, c.reportPanic)
	runtime.KeepAlive(w) // the wheel is not dropped while Close is running
	return tasks
}
