package heapqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

const maxWorkers = 256

// Options configure a Scheduler. The zero Options, like nil, are the defaults.
type Options struct {
	// Workers is how many tasks may run at the same time, each in a goroutine of
	// its own: 1 to 256; 0 means 1. With one worker tasks begin in the order of
	// their instants and one that blocks holds up all others.
	Workers int

	// MaxPending is how many timers the Scheduler holds at most, those whose task
	// is running included; Schedule refuses more with schedule.ErrFull. It must
	// not be negative or above 1<<31-1; 0 means 1<<31-1, in effect no limit.
	MaxPending int

	// OnPanic is called with what a task panicked with, and the stack of the
	// panic, on the task's worker before that goes on. Calls for tasks of several
	// workers may overlap. Like a Task it must not call Close, and a panic of its
	// own is not recovered. Nil means that the Logger gets a record at level Error.
	OnPanic func(task schedule.Task, value any, stack []byte)

	// Logger is where panics go if OnPanic is nil; nothing else is logged. Nil
	// means slog.Default().
	Logger *slog.Logger
}

// Scheduler is a timer engine that is exact to the resolution of the clock: a
// fixed set of workers taking tasks from a blocking queue. It implements
// schedule.Scheduler. Make it with NewScheduler and end it with Close, or its
// workers stay. The zero Scheduler takes no timer.
//
// Delays are measured on the monotonic clock, which stands still while the host
// is suspended.
type Scheduler struct {
	options Options   // with the defaults filled in; not changed after NewScheduler
	base    time.Time // as queue.base; not changed after NewScheduler
	workers sync.WaitGroup

	queue    Queue[schedule.Task] // its mu guards the fields below, too
	runs     []run                // one per worker; nil until the first Schedule
	stats    Stats                // but for Pending and LateMean
	lateSum  float64              // of all fired, in ns
	ended    sync.Cond            // of queue.mu: a Run has returned, said only if somebody is waiting
	awaiting int                  // goroutines that wait for ended
}

var _ schedule.Scheduler = (*Scheduler)(nil)

// NewScheduler returns a Scheduler, or an error that names the wrong field of o.
// A nil o means all defaults. No goroutine runs before the first Schedule.
func NewScheduler(o *Options) (*Scheduler, error) {
	var options Options
	if o != nil {
		options = *o
	}
	switch {
	case options.Workers < 0 || options.Workers > maxWorkers:
		return nil, fmt.Errorf("heapqueue: Options.Workers must be from 0 to %d, got %d", maxWorkers, options.Workers)
	case options.MaxPending < 0 || options.MaxPending > largest:
		return nil, fmt.Errorf("heapqueue: Options.MaxPending must be from 0 to %d, got %d", largest, options.MaxPending)
	}
	if options.Workers == 0 {
		options.Workers = 1
	}
	if options.MaxPending == 0 {
		options.MaxPending = largest
	}
	if options.OnPanic == nil {
		options.OnPanic = options.logPanic
	}
	s := &Scheduler{options: options, base: time.Now()}
	s.queue.base = s.base
	s.ended.L = &s.queue.mu
	return s, nil
}

func (o Options) logPanic(task schedule.Task, value any, stack []byte) {
	logger := o.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Error("heapqueue: a task panicked",
		"task", fmt.Sprintf("%T", task), "panic", value, "stack", string(stack))
}

var errZeroScheduler = errors.New("heapqueue: the Scheduler was not made by NewScheduler")

// Schedule implements schedule.Scheduler. It may be called from inside a Task. That of
// the zero Scheduler returns an error.
func (s *Scheduler) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	if t == nil {
		return schedule.Timer{}, schedule.ErrNilTask
	}
	at := s.in(d)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return schedule.Timer{}, schedule.ErrClosed
	case s.options.Workers == 0:
		return schedule.Timer{}, errZeroScheduler
	case q.items.len() >= s.options.MaxPending:
		return schedule.Timer{}, schedule.ErrFull
	case s.runs == nil:
		s.start()
	}
	return schedule.NewTimer((*engine)(s), q.add(t, at)), nil
}

// start starts the workers. It is called with queue.mu held.
func (s *Scheduler) start() {
	s.runs = make([]run, s.options.Workers)
	for i := range s.runs {
		s.workers.Go(func() { s.work(&s.runs[i]) })
	}
}

// in is the instant d from now as the queue counts; a d below zero is one of zero.
func (s *Scheduler) in(d time.Duration) int64 {
	return after(time.Since(s.base), max(d, 0))
}

// Close ends the Scheduler: no task begins any more, Schedule returns
// schedule.ErrClosed, and Reset and Stop of all timers return false. It waits for
// the tasks that run, and returns those of the timers that were still armed,
// earliest first; each is returned by one call, so a second Close returns none.
//
// Close is safe for concurrent use, but not from inside a Task, for which it would
// wait for ever: use go s.Close() there.
func (s *Scheduler) Close() []schedule.Task {
	q := &s.queue
	q.mu.Lock()
	q.shut()
	q.mu.Unlock()
	s.workers.Wait()

	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items.drain()
}

// Stats is what a Scheduler has done since it was made.
type Stats struct {
	Pending     int           // timers held now: waiting, due or running
	Fired       uint64        // calls of Run
	Panics      uint64        // those that panicked
	LateMax     time.Duration // the longest time from the instant of a timer to its Run
	LateMean    time.Duration // the mean of these times
	LongestTask time.Duration // the longest time that a Run, now ended, has taken
}

// Stats returns a snapshot, consistent in itself. It may be called at any time,
// from inside a Task and after Close too.
func (s *Scheduler) Stats() Stats {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	stats := s.stats
	stats.Pending = s.queue.items.len()
	if stats.Fired > 0 {
		stats.LateMean = time.Duration(s.lateSum / float64(stats.Fired))
	}
	return stats
}
