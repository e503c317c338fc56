package heapqueue

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// fate is what becomes of a timer when its Run returns. A timer waits in the
// queue, or runs on one worker, or is done and its id stale. While it runs it
// keeps its slot in the queue, and so its room.
//
//	         Reset           Stop              Run returns
//	once     again, true     stopped, false    done
//	again    again, true     stopped, true     waits
//	stopped  stopped, false  stopped, false    done
//
// Once the Scheduler is closed, Reset and Stop return false and change nothing. A
// timer that is armed again waits only when its Run has returned: filed at once, it
// could run on another worker beside that Run.
type fate uint8

const (
	once fate = iota
	again
	stopped
)

// run is what one worker is at. It is written with queue.mu held: fate and next by
// Reset and Stop, the rest by the worker alone, which therefore reads that without.
type run struct {
	task  schedule.Task // nil between tasks
	slot  uint32
	id    uint64
	began int64 // an instant
	fate  fate
	next  int64 // the instant to wait for, if fate is again
}

// work is the life of one worker. A task that ends the goroutine, by a panic or by
// runtime.Goexit, ends only this one: another takes its place.
func (s *Scheduler) work(r *run) {
	defer s.replace(r)
	defer s.rescue(r)
	for s.begin(r) {
		r.task.Run(schedule.NewTimer((*engine)(s), r.id))
		s.end(r)
	}
}

// begin waits for a due timer and claims it: from here on its Run is sure. It
// returns false once the Scheduler is closed.
func (s *Scheduler) begin(r *run) bool {
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, at, err := q.take(context.Background())
	if err != nil {
		return false
	}
	*r = run{task: *q.items.value(slot), slot: slot, id: q.items.id(slot), began: q.now}
	late := time.Duration(q.now - at)
	s.stats.Fired++
	s.stats.LateMax = max(s.stats.LateMax, late)
	s.lateSum += float64(late)
	return true
}

// end settles what becomes of the timer whose Run is over. One that was armed
// again before the Scheduler was closed waits even now: Close returns its task.
func (s *Scheduler) end(r *run) {
	now := int64(time.Since(s.base))
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s.stats.LongestTask = max(s.stats.LongestTask, time.Duration(now-r.began))
	if r.fate == again {
		q.place(r.slot, r.next)
	} else {
		q.items.free(r.slot)
	}
	*r = run{}
	if s.awaiting > 0 {
		s.ended.Broadcast()
	}
}

// rescue stops the panic of a task and reports it.
func (s *Scheduler) rescue(r *run) {
	if r.task == nil {
		return
	}
	value := recover()
	if value == nil {
		return // runtime.Goexit
	}
	s.queue.mu.Lock()
	s.stats.Panics++
	s.queue.mu.Unlock()
	s.options.OnPanic(r.task, value, debug.Stack())
}

// replace starts the worker anew if a task has ended its goroutine. It is deferred
// apart from rescue so that it is done even if OnPanic ends the goroutine, too.
func (s *Scheduler) replace(r *run) {
	if r.task == nil {
		return
	}
	s.end(r)
	s.workers.Go(func() { s.work(r) })
}

// engine is the Scheduler as its timers see it, so that their methods are not
// among those of Scheduler.
type engine Scheduler

// ResetTimer implements schedule.Engine.
func (e *engine) ResetTimer(id uint64, d time.Duration) bool {
	s := (*Scheduler)(e)
	at := s.in(d)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, ok := q.items.find(id)
	if !ok || q.closed {
		return false
	}
	if q.items.waiting(slot) {
		q.place(slot, at)
		return true
	}
	r := s.running(slot)
	if r.fate == stopped {
		return false
	}
	r.fate, r.next = again, at
	return true
}

// StopTimer implements schedule.Engine.
func (e *engine) StopTimer(id uint64) bool {
	s := (*Scheduler)(e)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	slot, ok := q.items.find(id)
	if !ok || q.closed {
		return false
	}
	if q.items.waiting(slot) {
		q.items.remove(slot)
		return true
	}
	r := s.running(slot)
	was := r.fate
	r.fate = stopped
	return was == again
}

// AwaitTimer implements schedule.Engine.
func (e *engine) AwaitTimer(id uint64) {
	s := (*Scheduler)(e)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		slot, ok := q.items.find(id)
		if !ok || q.items.waiting(slot) {
			return
		}
		s.awaiting++
		s.ended.Wait()
		s.awaiting--
	}
}

// running returns the run of the timer in slot, which does not wait and therefore
// runs. It is called with queue.mu held.
func (s *Scheduler) running(slot uint32) *run {
	for i := range s.runs {
		if r := &s.runs[i]; r.task != nil && r.slot == slot {
			return r
		}
	}
	panic("heapqueue: a timer neither waits nor runs")
}
