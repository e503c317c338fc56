package wheel

import (
	"math"
	"sync/atomic"
	"time"
)

// Stats is a snapshot of what a wheel has done and how well. Lateness is counted
// from the end of the tick in which a timer was due.
type Stats struct {
	Pending     int           // timers that are to run, those whose Run is in progress included
	Fired       uint64        // tasks begun
	Panics      uint64        // tasks that panicked
	Wakeups     uint64        // how often the worker woke up
	LateMean    time.Duration // mean lateness of all tasks begun
	LateMax     time.Duration // greatest lateness
	LongestTask time.Duration // longest time that one Run took
	Running     time.Duration // how long the Run in progress has taken so far, 0 if there is none or there is an Executor
}

// stats is the shared side: written by whoever runs tasks, read by anyone.
type stats struct {
	fired, panics, wakeups atomic.Uint64
	lateSum                atomic.Uint64 // the bits of a float64: the sum in ns outgrows an int64
	lateMax, longest       atomic.Int64
	began                  atomic.Int64 // when the Run in progress began, since base, or idle
}

const idle = -1

// tally is the side of one goroutine that runs tasks. The worker's goes over to
// stats once per batch.
type tally struct {
	fired            uint64
	lateSum          float64 // in ns
	lateMax, longest time.Duration
}

func (t *tally) begin(late time.Duration) {
	t.fired++
	t.lateSum += float64(late)
	t.lateMax = max(t.lateMax, late)
}

// add takes over the tally and clears it.
func (s *stats) add(t *tally) {
	if t.fired == 0 {
		return
	}
	s.fired.Add(t.fired)
	accumulate(&s.lateSum, t.lateSum)
	raise(&s.lateMax, int64(t.lateMax))
	raise(&s.longest, int64(t.longest))
	*t = tally{}
}

// raise makes a at least v.
func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); {
		old = a.Load()
	}
}

// accumulate adds v to the float64 whose bits sum holds.
func accumulate(sum *atomic.Uint64, v float64) {
	for old := sum.Load(); !sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)); {
		old = sum.Load()
	}
}

// Stats returns a snapshot. It is safe for concurrent use and after Close. The
// figures of the batch of tasks that is running are added when that batch ends,
// but Running tells at once of a task that holds the wheel up. With an Executor the
// figures of each task are added when it ends.
func (w *Wheel) Stats() Stats {
	c := w.core
	if c == nil {
		return Stats{}
	}
	s := Stats{
		Fired:       c.stats.fired.Load(),
		Panics:      c.stats.panics.Load(),
		Wakeups:     c.stats.wakeups.Load(),
		LateMax:     time.Duration(c.stats.lateMax.Load()),
		LongestTask: time.Duration(c.stats.longest.Load()),
	}
	if s.Fired > 0 {
		s.LateMean = time.Duration(math.Float64frombits(c.stats.lateSum.Load()) / float64(s.Fired))
	}
	if began := c.stats.began.Load(); began != idle {
		s.Running = max(time.Since(c.base)-time.Duration(began), 1)
	}
	for i := range c.shards {
		s.Pending += c.shards[i].count()
	}
	return s
}
