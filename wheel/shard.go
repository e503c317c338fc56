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
	closed bool

	core *core // set once
	_    [40]byte
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
	gen := n.gen
	s.catchUp(now)
	s.add(slot, n, tick)
	visit := s.publish()
	s.mu.Unlock()
	s.core.expect(visit)
	return schedule.NewTimer(s, uint64(gen)<<32|uint64(slot)), nil
}

// ResetTimer implements [schedule.Engine].
func (s *shard) ResetTimer(id uint64, d time.Duration) bool {
	slot := uint32(id)
	now, tick := s.core.ticks(d)
	s.mu.Lock()
	n := s.find(slot, uint32(id>>32))
	if n == nil || s.closed || n.list == stateDying {
		s.mu.Unlock()
		return false
	}
	if n.queued() {
		s.move(slot, n, tick)
	} else {
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
	slot := uint32(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(slot, uint32(id>>32))
	if n == nil || s.closed {
		return false
	}
	switch {
	case n.list == stateDying:
		return false
	case n.list == stateRunning:
		n.list = stateDying
		return false
	case n.queued():
		s.remove(slot, n)
	}
	s.drop(slot, n)
	return true
}

// publish brings hint up to date with next and returns it: the tick at which the
// worker must be awake. The caller holds mu.
func (s *shard) publish() int64 {
	if s.hint.Load() != s.next {
		s.hint.Store(s.next)
	}
	return s.next
}

// drop releases a node and its room. The caller holds mu.
func (s *shard) drop(slot uint32, n *node) {
	s.release(slot, n)
	s.core.vacate()
}

// take moves what is due by the given tick, a batch at most, from the buckets to
// due. It returns false when nothing is left there that is due.
func (s *shard) take(tick int64, due []uint32) ([]uint32, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.heads == nil {
		return due, false
	}
	due, more := s.step(tick, due)
	s.publish()
	return due, more
}

// claim ends the run of the timer prev and begins that of the first timer in due
// that is still to run. It returns what is left of due; task is nil if there is
// none. Until then Stop and Reset of a due timer are exact, and Close gets back
// what did not begin.
func (s *shard) claim(prev uint64, due []uint32) (task schedule.Task, id uint64, tick int64, rest []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(uint32(prev), uint32(prev>>32)); n != nil && (n.list == stateRunning || n.list == stateDying) {
		s.drop(uint32(prev), n)
	}
	if s.closed {
		return nil, 0, 0, nil
	}
	for i, slot := range due {
		// The slot may hold another timer by now, or be gone, but not be ready
		// again: only take makes a node ready.
		if int(slot>>chunkBits) >= len(s.chunks) {
			continue
		}
		if n := s.at(slot); n.list == stateReady {
			n.list = stateRunning
			return n.task, uint64(n.gen)<<32 | uint64(slot), n.tick, due[i+1:]
		}
	}
	return nil, 0, 0, nil
}

// shut refuses all further work.
func (s *shard) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// drain returns the tasks that were still to run and forgets all timers. The
// worker has ended.
func (s *shard) drain() []schedule.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tasks []schedule.Task
	s.each(func(n *node) {
		tasks = append(tasks, n.task)
		s.core.vacate()
	})
	s.slab = slab{gen: s.gen}
	s.heads, s.words = nil, nil
	return tasks
}

// pending returns the number of timers that are to run.
func (s *shard) pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}
