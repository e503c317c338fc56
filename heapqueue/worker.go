// The goroutines that run due tasks.

package heapqueue

import (
	"context"
	"runtime/debug"
	"unsafe"

	"github.com/leasewheel/leasewheel/internal/prefetch"
	"github.com/leasewheel/leasewheel/schedule"
)

// work runs due timers, one after another, until the Scheduler is closed. A task can end
// the goroutine by a panic or by runtime.Goexit; another goroutine then takes over.
func (s *Scheduler) work(r *run) {
	defer s.replace(r)
	defer s.recoverPanic(r)
	for s.nextRun(r) {
		r.task.Run(schedule.NewTimer((*engine)(s), r.id))
	}
}

// nextRun finishes the run r, if there is one, waits for a due timer, and claims it. It
// takes the lock and reads the clock once if a timer is due already. It returns false
// once the Scheduler is closed.
func (s *Scheduler) nextRun(r *run) bool {
	q := &s.queue
	now := s.clock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.task != nil {
		s.finish(r, now)
	}
	w, err := q.awaitDue(context.Background(), now)
	if err != nil {
		return false
	}
	s.claim(r, q.items.pop(), q.now)
	s.blocked.Need()
	q.leave(w)
	return true
}

// prefetchTasks prefetches the memory that the tasks of a batch point to. The memory of
// a task that was pending for long is not in the cache, and the misses of a whole batch
// overlap. A read instead of a prefetch could fault. It is called with queue.mu held.
func (s *Scheduler) prefetchTasks(batch []entry) {
	for _, e := range batch {
		task := s.queue.items.value(e.slot)
		prefetch.Line((*[2]unsafe.Pointer)(unsafe.Pointer(task))[1]) // the data word of the interface
	}
}

// recoverPanic recovers and reports the panic of a task.
func (s *Scheduler) recoverPanic(r *run) {
	if r.task == nil {
		return
	}
	value := recover()
	if value == nil {
		return // runtime.Goexit
	}
	s.reportPanic(r.task, value)
}

// reportPanic counts the panic of a task and calls OnPanic.
func (s *Scheduler) reportPanic(task schedule.Task, value any) {
	s.queue.mu.Lock()
	s.stats.Panics++
	s.queue.mu.Unlock()
	s.options.OnPanic(task, value, debug.Stack())
}

// replace finishes the run and starts another goroutine if a task has ended this one. It
// is deferred separately from recoverPanic, so that it runs even if OnPanic ends the
// goroutine, too.
func (s *Scheduler) replace(r *run) {
	if r.task == nil {
		return
	}
	now := s.clock()
	s.queue.mu.Lock()
	s.finish(r, now)
	s.queue.mu.Unlock()
	s.workers.Go(func() { s.work(r) })
}
