package wheel

import (
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
	Running     time.Duration // how long the Run in progress has taken so far, 0 if there is none
}

// stats is the shared side: written by the worker, read by anyone.
type stats struct {
	fired, panics, wakeups    atomic.Uint64
	lateSum, lateMax, longest atomic.Int64
	began                     atomic.Int64 // when the Run in progress began, since base, or idle
}

const idle = -1

// tally is the worker's own side. It goes over to stats once per batch.
type tally struct {
	fired            uint64
	lateSum, lateMax time.Duration
	longest          time.Duration
}

func (t *tally) begin(late time.Duration) {
	t.fired++
	t.lateSum += late
	t.lateMax = max(t.lateMax, late)
}

// add takes over the tally and clears it. Only the worker calls it.
func (s *stats) add(t *tally) {
	if t.fired == 0 {
		return
	}
	s.fired.Add(t.fired)
	s.lateSum.Add(int64(t.lateSum))
	s.lateMax.Store(max(s.lateMax.Load(), int64(t.lateMax)))
	s.longest.Store(max(s.longest.Load(), int64(t.longest)))
	*t = tally{}
}

// Stats returns a snapshot. It is safe for concurrent use and after Close. The
// figures of the batch of tasks that is running are added when that batch ends,
// but Running tells at once of a task that holds the wheel up.
func (w *Wheel) Stats() Stats {
	c := w.core
	s := Stats{
		Fired:       c.stats.fired.Load(),
		Panics:      c.stats.panics.Load(),
		Wakeups:     c.stats.wakeups.Load(),
		LateMax:     time.Duration(c.stats.lateMax.Load()),
		LongestTask: time.Duration(c.stats.longest.Load()),
	}
	if s.Fired > 0 {
		s.LateMean = time.Duration(c.stats.lateSum.Load()) / time.Duration(s.Fired)
	}
	if began := c.stats.began.Load(); began != idle {
		s.Running = max(time.Since(c.base)-time.Duration(began), 1)
	}
	for i := range c.shards {
		s.Pending += c.shards[i].pending()
	}
	return s
}
