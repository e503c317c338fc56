// The states of a timer and all transitions between them.

package heapqueue

import (
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// timerState is the state of a timer. All transitions are in this file:
//
//	state    claim    Reset           Stop            finish  Scheduler.Close
//	queued   running  queued, true    done, true      -       done, task returned
//	running  -        rearmed, true   stopped, false  done    running
//	rearmed  -        rearmed, true   stopped, true   queued  rearmed, then as queued
//	stopped  -        stopped, false  stopped, false  done    stopped
//	done     -        done, false     done, false     -       done
//
// Schedule makes a queued timer. A worker claims a due timer, calls Run, and finishes
// the timer when Run has returned. After Close, Reset and Stop return false and change
// nothing.
//
// A timer that is re-armed during Run is queued only when Run has returned. Otherwise
// another worker could call Run while the first call is in progress. A timer keeps its
// slot during Run, so there is room to queue it again.
type timerState uint8

const (
	done    timerState = iota // the id is stale
	queued                    // in the heap of the queue, due or not
	running                   // Run is in progress
	rearmed                   // Run is in progress; Reset was called
	stopped                   // Run is in progress; Stop was called
)

// run is the timer that a worker runs. All fields are guarded by queue.mu. The worker
// reads task and id without it, because only the worker changes these.
type run struct {
	task  schedule.Task // nil between runs
	slot  uint32
	id    uint64
	began int64      // the instant at which the run was claimed
	state timerState // running, rearmed or stopped
	next  int64      // the instant of the next run, if state is rearmed
}

// state returns the state of a timer with its slot, and its run if Run is in progress.
// It is called with queue.mu held.
func (s *Scheduler) state(id uint64) (state timerState, slot uint32, r *run) {
	slot, ok := s.queue.items.find(id)
	switch {
	case !ok:
		return done, 0, nil
	case s.queue.items.queued(slot):
		return queued, slot, nil
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.task != nil && r.slot == slot {
			return r.state, slot, r
		}
	}
	panic("heapqueue: timer is neither queued nor running")
}

// claim begins a run of the timer that was popped as e at the instant now. It is called
// with queue.mu held.
func (s *Scheduler) claim(r *run, e entry, now int64) {
	q := &s.queue
	*r = run{task: *q.items.value(e.slot), slot: e.slot, id: q.items.id(e.slot), began: now, state: running}
	late := time.Duration(now - e.at)
	s.stats.Fired++
	s.stats.LateMax = max(s.stats.LateMax, late)
	s.stats.Late.Add(late)
	s.lateSum += float64(late)
}

// finish ends a run whose call of Run ended at the instant now. A timer that was
// re-armed is queued even if the Scheduler was closed since, because Close returns its
// task. finish is called with queue.mu held.
func (s *Scheduler) finish(r *run, now int64) {
	q := &s.queue
	s.stats.LongestTask = max(s.stats.LongestTask, time.Duration(now-r.began))
	if r.state == rearmed {
		q.items.push(r.slot, r.next)
		q.wakeLeader(r.next)
	} else {
		q.items.free(r.slot)
	}
	*r = run{}
	if s.awaiting > 0 {
		s.ended.Broadcast()
	}
}

// engine is the Scheduler as seen by timers. It keeps the methods of schedule.TimerOwner out
// of the method set of Scheduler.
type engine Scheduler

// ResetTimer implements schedule.TimerOwner.
func (e *engine) ResetTimer(id uint64, d time.Duration) bool {
	s := (*Scheduler)(e)
	at := s.instant(d)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	switch state, slot, r := s.state(id); state {
	case queued:
		s.needCheck()
		q.move(slot, at)
	case running, rearmed:
		r.state, r.next = rearmed, at
	default:
		return false
	}
	return true
}

// StopTimer implements schedule.TimerOwner.
func (e *engine) StopTimer(id uint64) bool {
	s := (*Scheduler)(e)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	state, slot, r := s.state(id)
	switch state {
	case queued:
		q.items.remove(slot)
	case running, rearmed:
		r.state = stopped
	}
	return state == queued || state == rearmed
}

// AwaitTimer implements schedule.TimerOwner.
func (e *engine) AwaitTimer(id uint64) {
	s := (*Scheduler)(e)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if state, _, _ := s.state(id); state == done || state == queued {
			return
		}
		s.awaiting++
		s.ended.Wait()
		s.awaiting--
	}
}

// TimerDeadline implements schedule.TimerOwner.
func (e *engine) TimerDeadline(id uint64) (time.Time, bool) {
	s := (*Scheduler)(e)
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var at int64
	switch state, slot, r := s.state(id); {
	case q.closed:
		return time.Time{}, false
	case state == queued:
		at = q.items.entry(slot).at
	case state == rearmed:
		at = r.next
	default:
		return time.Time{}, false
	}
	return s.base.Add(time.Duration(at)), true
}
