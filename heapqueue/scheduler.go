// The timer engine.

package heapqueue

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/logging"
	"github.com/leasewheel/leasewheel/internal/periodic"
	"github.com/leasewheel/leasewheel/schedule"
)

const maxWorkers = 256

// Options configure a Scheduler. The zero Options and a nil *Options mean the defaults.
type Options struct {
	// Workers is the number of tasks that can run at the same time, each in a goroutine
	// of its own: 1 to 256; 0 means 1. With one worker, tasks begin in the order of
	// their instants, and a task that blocks delays all others.
	Workers int

	// MaxPending limits the number of timers. At the limit Schedule returns
	// schedule.ErrFull, which defines the timers that count. The range is 0 to 1<<31-1; 0 means
	// 1<<31-1.
	MaxPending int

	// OnPanic is called with the value and the stack of a task's panic, on the worker
	// of the task. Calls by several workers can overlap. OnPanic must not call Close,
	// and a panic of OnPanic is not recovered. Nil means that the panic is logged at
	// level Error.
	OnPanic func(task schedule.Task, value any, stack []byte)

	// Logger receives an error for each panic if OnPanic is nil, and a warning if tasks
	// block the Scheduler. Nil means slog.Default() at the time of each record.
	//
	// Tasks block the Scheduler if all workers are busy with the same tasks for two
	// seconds while another timer is due. A runtime timer notices it, so the warning comes
	// while they are still running. It comes again when the duration has doubled, at most
	// once a minute. No timer waits for the Logger: a goroutine writes the records, and
	// Stats.DroppedLogs counts those that did not fit into its queue.
	Logger *slog.Logger
}

// Scheduler is a timer engine that is exact to the resolution of the clock. A fixed
// number of workers run the tasks of a queue. Scheduler implements schedule.Scheduler.
// NewScheduler makes a Scheduler, and Close ends its workers. The zero Scheduler returns
// an error from Schedule.
//
// Delays are measured on the monotonic clock, which stops while the host is suspended.
type Scheduler struct {
	options Options   // with defaults; not changed after NewScheduler
	base    time.Time // equals queue.base; not changed after NewScheduler
	workers sync.WaitGroup
	log     *slog.Logger
	blocked periodic.Check // checks that the tasks do not block the workers

	queue    delayQueue[schedule.Task] // queue.mu guards the fields below, too
	runs     []run                     // one per worker; nil until the first Schedule
	stats    schedule.Stats            // Fired, Panics, LateMax, Late and LongestTask
	lateSum  float64                   // ns
	ended    sync.Cond                 // on queue.mu: a run has finished; signalled only if awaiting > 0
	awaiting int                       // number of goroutines that wait for ended
	stalled  int64                     // the latest begin of a run in the last check, if the workers were blocked
}

var _ schedule.Scheduler = (*Scheduler)(nil)

// NewScheduler returns a Scheduler, or an error that names the invalid field of o. It
// starts no goroutine; the first Schedule does.
func NewScheduler(o *Options) (*Scheduler, error) {
	var options Options
	if o != nil {
		options = *o
	}
	switch {
	case options.Workers < 0 || options.Workers > maxWorkers:
		return nil, fmt.Errorf("heapqueue: Options.Workers must be from 0 to %d, got %d", maxWorkers, options.Workers)
	case options.MaxPending < 0 || options.MaxPending > maxItems:
		return nil, fmt.Errorf("heapqueue: Options.MaxPending must be from 0 to %d, got %d", maxItems, options.MaxPending)
	}
	if options.Workers == 0 {
		options.Workers = 1
	}
	if options.MaxPending == 0 {
		options.MaxPending = maxItems
	}
	s := &Scheduler{options: options, base: time.Now(), log: logging.New(options.Logger), stalled: never}
	if options.OnPanic == nil {
		s.options.OnPanic = s.logPanic
	}
	s.blocked.Init(s.checkWorkers)
	s.queue.base = s.base
	s.queue.onBatch = s.prefetchTasks
	s.ended.L = &s.queue.mu
	return s, nil
}

func (s *Scheduler) logPanic(task schedule.Task, value any, stack []byte) {
	s.log.Error("heapqueue: task panicked",
		slog.String("task", fmt.Sprintf("%T", task)), slog.Any("panic", value), slog.String("stack", string(stack)))
}

var errZeroScheduler = errors.New("heapqueue: Scheduler was not made by NewScheduler")

// Schedule implements schedule.Scheduler. It can be called during Run.
func (s *Scheduler) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	if t == nil {
		return schedule.Timer{}, schedule.ErrNilTask
	}
	at := s.instant(d)
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
	}
	if s.runs == nil {
		s.start()
	}
	s.needCheck()
	return schedule.NewTimer((*engine)(s), q.add(t, at)), nil
}

// start starts the workers. It is called with queue.mu held.
func (s *Scheduler) start() {
	s.runs = make([]run, s.options.Workers)
	for i := range s.runs {
		s.workers.Go(func() { s.work(&s.runs[i]) })
	}
}

// clock returns the current instant.
func (s *Scheduler) clock() int64 { return int64(time.Since(s.base)) }

// instant returns the instant d from now. A negative d counts as 0.
func (s *Scheduler) instant(d time.Duration) int64 {
	return addInstant(time.Since(s.base), max(d, 0))
}

// Close stops the Scheduler, waits for the Runs in progress, and returns the tasks of the
// timers that were still pending, earliest first. Package schedule has its contract. A Task
// must not call Close, because Close waits for that task. It may use go s.Close().
func (s *Scheduler) Close() []schedule.Task {
	q := &s.queue
	q.mu.Lock()
	q.close()
	q.mu.Unlock()
	s.workers.Wait()
	s.blocked.Close()

	q.mu.Lock()
	tasks := q.items.drain()
	q.mu.Unlock()
	schedule.NotifyClosed(tasks, s.reportPanic)
	return tasks
}
