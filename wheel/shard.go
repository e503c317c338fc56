// A shard: buckets with a lock, the engine behind a Timer.

package wheel

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/leasewheel/leasewheel/internal/prefetch"
	"github.com/leasewheel/leasewheel/schedule"
)

// shard is a part of the wheel with a lock of its own. A timer stays in the shard in
// which it was scheduled. The shard is the schedule.TimerOwner of its timers.
type shard struct {
	// The hints are copies of nextExpiry and nextCascade, to be read without the lock.
	// The worker reads them at each wake-up, so they have a cache line of their own.
	expiryHint  atomic.Int64
	cascadeHint atomic.Int64
	_           [48]byte

	mu sync.Mutex // guards all fields below except core
	buckets
	closed      bool
	running     int       // timers whose Run is in progress
	waiters     int       // goroutines in waitForRun
	runReturned sync.Cond // uses mu; signalled when a Run has returned and waiters > 0

	core *core // never changes
}

// schedule adds a timer that is due at a tick; now is the last tick that is over. The caller has
// reserved room for the timer.
func (s *shard) schedule(now, tick int64, task schedule.Task) (schedule.Timer, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return schedule.Timer{}, schedule.ErrClosed
	}
	if s.heads == nil {
		s.init(s.core.level0Bits)
	}
	id := s.buckets.schedule(task, now, tick)
	visit := s.publishHint()
	s.mu.Unlock()
	s.core.wakeBy(visit)
	return schedule.NewTimer(s, id), nil
}

// ResetTimer implements [schedule.TimerOwner].
func (s *shard) ResetTimer(id uint64, d time.Duration) bool {
	now, tick := s.core.ticks(d)
	s.mu.Lock()
	slot, n := s.find(id)
	if n == nil || s.closed || !s.reset(slot, n, now, tick) {
		s.mu.Unlock()
		return false
	}
	visit := s.publishHint()
	s.mu.Unlock()
	s.core.wakeBy(visit)
	return true
}

// StopTimer implements [schedule.TimerOwner].
func (s *shard) StopTimer(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, n := s.find(id)
	if n == nil || s.closed {
		return false
	}
	prevented, removed := s.stop(slot, n)
	if removed {
		s.core.unreserve()
	}
	return prevented
}

// AwaitTimer implements [schedule.TimerOwner].
func (s *shard) AwaitTimer(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if _, n := s.find(id); n == nil || !n.running() {
			return
		}
		s.waitForRun()
	}
}

// TimerDeadline implements [schedule.TimerOwner].
func (s *shard) TimerDeadline(id uint64) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, n := s.find(id)
	if n == nil || s.closed || n.running() && n.bucket != stateRearmed {
		return time.Time{}, false
	}
	return s.core.base.Add(s.core.tickEnd(n.tick)), true
}

// publishHint updates the hints. It returns the tick by which the worker must be awake.
// The caller holds mu.
func (s *shard) publishHint() int64 {
	if s.expiryHint.Load() != s.nextExpiry {
		s.expiryHint.Store(s.nextExpiry)
	}
	if s.cascadeHint.Load() != s.nextCascade {
		s.cascadeHint.Store(s.nextCascade)
	}
	return min(s.nextExpiry, s.nextCascade)
}

// collect appends the ids of timers that are due by the given tick to due, one batch at
// most. It returns false if there was nothing to visit.
func (s *shard) collect(tick int64, due []uint64) ([]uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.heads == nil {
		return due, false
	}
	due, more := s.collectExpired(tick, due)
	s.publishHint()
	// Tasks that have been pending for long are not in the cache. Prefetching the memory that they point
	// at lets the processor overlap the misses that the Runs would otherwise take one by one, which takes
	// a fifth to a third off the cost of a firing. A prefetch is a hint and never faults. A read would: a
	// task may point at memory that must not be read, such as a handle of a C library.
	for _, id := range due {
		_, n := s.find(id)
		prefetch.Line((*[2]unsafe.Pointer)(unsafe.Pointer(&n.task))[1]) // after the type, the pointer
	}
	return due, more
}

// cascade looks at one batch of nodes at most; see buckets.cascade. It returns false if
// there was nothing to do.
func (s *shard) cascade(tick int64, idle bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.heads == nil {
		return false
	}
	looked := s.buckets.cascade(tick, batchLen, idle)
	s.publishHint()
	return looked > 0
}

// nextRun ends the Run of timer prev, if that is not 0, and begins the Run of the first
// ready timer in due. Doing both takes one lock per task. It returns the rest of due, or
// a nil task if no timer in due is ready.
//
// Stop, Reset and Close treat a timer as pending until nextRun has begun its Run.
func (s *shard) nextRun(prev uint64, due []uint64) (task schedule.Task, id uint64, tick int64, rest []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended(prev)
	if s.closed {
		return nil, 0, 0, nil
	}
	for i, id := range due {
		if n := s.begin(id); n != nil {
			s.running++
			return n.task, id, n.tick, due[i+1:]
		}
	}
	return nil, 0, 0, nil
}

// closesChannel reports whether the task of a timer closes a channel of After.
func (s *shard) closesChannel(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, n := s.find(id)
	if n == nil {
		return false
	}
	_, ok := n.task.(*sharedTick)
	return ok
}

// endRun ends the Run of a timer on a goroutine other than the worker.
func (s *shard) endRun(id uint64) {
	s.mu.Lock()
	s.ended(id)
	visit := s.publishHint()
	s.mu.Unlock()
	s.core.wakeBy(visit)
}

// ended ends the Run of a timer, unless that has been done. The caller holds mu.
func (s *shard) ended(id uint64) {
	ended, removed := s.end(id)
	if !ended {
		return
	}
	if removed {
		s.core.unreserve()
	}
	s.running--
	if s.waiters > 0 {
		s.runReturned.Broadcast()
	}
}

// waitForRun waits until a Run has returned. The caller holds mu.
func (s *shard) waitForRun() {
	s.waiters++
	s.runReturned.Wait()
	s.waiters--
}

// close makes the shard refuse all calls.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// drain waits for running tasks, removes all timers and returns their tasks, except those of
// After. The worker has returned.
func (s *shard) drain() []schedule.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.waitForRun()
	}
	var tasks []schedule.Task
	s.each(func(n *node) {
		s.core.unreserve()
		if t, ok := n.task.(*sharedTick); ok {
			s.core.handOver(t)
			return
		}
		tasks = append(tasks, n.task)
	})
	s.slab = slab{}
	s.heads, s.pendingMap, s.counts, s.quotas, s.zombies = nil, nil, nil, nil, nil
	return tasks
}

// pending returns the number of timers that are pending or running.
func (s *shard) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count()
}
