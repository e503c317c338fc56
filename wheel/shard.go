package wheel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/schedule"
)

// shard is a wheel of its own with its own lock. A timer belongs to the shard in
// which it was scheduled for all its life; the shard is the engine behind its
// handle.
type shard struct {
	// hint is a tick before which the worker need not look here: a copy of next
	// that is read without the lock. It has a cache line of its own, away from mu,
	// because the worker reads it at each wake-up.
	hint atomic.Int64
	_    [56]byte

	mu sync.Mutex // guards all below
	buckets
	closed  bool
	running int       // timers whose Run is in progress
	waiting int       // goroutines in wait
	touched byte      // see touch
	ended   sync.Cond // of mu: a Run has returned, said only if there is somebody waiting

	core *core // set once
}

// schedule adds a timer. The caller has reserved room for it.
func (s *shard) schedule(d time.Duration, task schedule.Task) (schedule.Timer, error) {
	now, tick := s.core.ticks(d)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return schedule.Timer{}, schedule.ErrClosed
	}
	if s.heads == nil {
		s.init(s.core.fine)
	}
	slot, n := s.alloc(task)
	id := n.id(slot)
	s.catchUp(now)
	s.add(slot, n, tick)
	visit := s.publish()
	s.mu.Unlock()
	s.core.expect(visit)
	return schedule.NewTimer(s, id), nil
}

// ResetTimer implements [schedule.Engine].
func (s *shard) ResetTimer(id uint64, d time.Duration) bool {
	now, tick := s.core.ticks(d)
	s.mu.Lock()
	slot, n := s.find(id)
	if n == nil || s.closed || n.list == stateStopped {
		s.mu.Unlock()
		return false
	}
	switch {
	case n.queued():
		s.move(slot, n, tick)
	case n.running():
		n.tick, n.list = tick, stateRearmed
	default:
		s.catchUp(now)
		s.add(slot, n, tick)
	}
	visit := s.publish()
	s.mu.Unlock()
	s.core.expect(visit)
	return true
}

// StopTimer implements [schedule.Engine].
func (s *shard) StopTimer(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, n := s.find(id)
	if n == nil || s.closed {
		return false
	}
	switch {
	case n.running():
		pending := n.list == stateRearmed
		n.list = stateStopped
		return pending
	case n.queued():
		s.cancel(slot, n)
	default:
		s.release(slot, n)
	}
	s.core.vacate()
	return true
}

// AwaitTimer implements [schedule.Engine].
func (s *shard) AwaitTimer(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if _, n := s.find(id); n == nil || !n.running() {
			return
		}
		s.wait()
	}
}

// publish brings hint up to date with next and returns it: the tick at which the
// worker must be awake. The caller holds mu.
func (s *shard) publish() int64 {
	if s.hint.Load() != s.next {
		s.hint.Store(s.next)
	}
	return s.next
}

// take moves what is due by the given tick, a batch at most, from the buckets to
// due. It returns false when nothing is left there that is due.
func (s *shard) take(tick int64, due []uint64) ([]uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.heads == nil {
		return due, false
	}
	due, more := s.step(tick, due)
	s.publish()
	for _, id := range due {
		_, n := s.find(id)
		s.touched += touch(n.task)
	}
	return due, more
}

// claim ends the run of the timer prev, 0 if there is none, and begins that of the
// first timer in due that is still to run. It returns what is left of due; task is
// nil if there is none. Until a due timer is claimed Stop and Reset of it are exact, and
// Close returns its task.
func (s *shard) claim(prev uint64, due []uint64) (task schedule.Task, id uint64, tick int64, rest []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(prev)
	if s.closed {
		return nil, 0, 0, nil
	}
	for i, id := range due {
		// One that was stopped or moved since it was taken is not ready. Only
		// take makes it so again, and then it is due.
		if _, n := s.find(id); n != nil && n.list == stateReady {
			n.list = stateRunning
			s.running++
			return n.task, id, n.tick, due[i+1:]
		}
	}
	return nil, 0, 0, nil
}

// end settles what becomes of a timer whose Run is over, if it is the one of a run
// that was not ended before. The caller holds mu. A timer that was armed again waits
// only from now on: filed at once, it could run beside its own Run on an Executor.
func (s *shard) end(id uint64) {
	slot, n := s.find(id)
	if n == nil || !n.running() {
		return
	}
	if n.list == stateRearmed {
		s.add(slot, n, n.tick)
	} else {
		s.release(slot, n)
		s.core.vacate()
	}
	s.running--
	if s.waiting > 0 {
		s.ended.Broadcast()
	}
}

// wait waits until some Run has returned. The caller holds mu.
func (s *shard) wait() {
	s.waiting++
	s.ended.Wait()
	s.waiting--
}

// shut refuses all further work.
func (s *shard) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// drain waits for the tasks that run, returns those that were still to run and
// forgets all timers. The worker has ended.
func (s *shard) drain() []schedule.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.wait()
	}
	var tasks []schedule.Task
	s.each(func(n *node) {
		tasks = append(tasks, n.task)
		s.core.vacate()
	})
	s.slab = slab{}
	s.heads, s.words, s.dead = nil, nil, nil
	return tasks
}

// count returns the number of timers that are to run or running.
func (s *shard) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending()
}
