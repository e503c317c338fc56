package renewal

import (
	"runtime/metrics"
	"sync"
	"time"
)

// noteStall records that the process did not run, if the monitor is late. It may be called at
// any time: a holder may notice a loss before the monitor runs. The caller holds mu.
func (w *Watchdog[L]) noteStall(now instant) {
	m := &w.monitor
	expected := m.comparedAt + int64(compareInterval)
	if m.wakeAt > m.comparedAt && m.wakeAt < expected { // neither asleep nor working
		expected = m.wakeAt
	}
	late := time.Duration(now.mono - expected)
	if m.running || w.held == 0 || late <= m.tolerance || m.stallSeen == m.comparedAt+1 {
		return
	}
	m.stallSeen = m.comparedAt + 1 // not 0
	w.recorder.add(Event{Kind: EventStalled, At: w.clock.timeOf(now.mono), Lane: AllLanes, Took: late})
}

// stepOf returns how far the clocks have moved apart, forward or back.
func (m *monitor[L]) stepOf(now instant) time.Duration {
	offset := now.clockOffset()
	step := time.Duration(offset - m.minOffset)
	if back := time.Duration(m.maxOffset - offset); back > step {
		step = -back
	}
	return step
}

// noteStep records that a clock was stepped. Like noteStall it may be called at any time.
func (w *Watchdog[L]) noteStep(now instant) {
	m := &w.monitor
	step := m.stepOf(now)
	if w.held == 0 || step <= m.tolerance && step >= -m.tolerance || m.stepSeen == m.comparedAt+1 {
		return
	}
	m.stepSeen = m.comparedAt + 1 // not 0
	w.recorder.add(Event{Kind: EventClockStep, At: w.clock.timeOf(now.mono), Lane: AllLanes, Took: step})
}

// lastRan returns when the monitor ran last, before a run under way.
func (m *monitor[L]) lastRan() int64 {
	if m.running {
		return m.ranBefore
	}
	return m.comparedAt
}

// noteEngineLate records that a timer was late, at most once per compareInterval.
func (w *Watchdog[L]) noteEngineLate(late time.Duration, now instant) {
	m := &w.monitor
	if m.lateRecorded != 0 && time.Duration(now.mono-m.lateRecorded) < compareInterval {
		return
	}
	m.lateRecorded = now.mono
	w.recorder.add(Event{Kind: EventEngineLate, At: w.clock.timeOf(now.mono), Lane: AllLanes, Late: late})
}

// noteGC records that the garbage collector has stopped the process for long.
func (w *Watchdog[L]) noteGC(now instant) {
	m := &w.monitor
	pauses := w.longGCPauses()
	if pauses > m.gcPauses {
		w.recorder.add(Event{Kind: EventGCPause, At: w.clock.timeOf(now.mono), Lane: AllLanes, Took: longGCPause})
	}
	m.gcPauses = pauses
}

// longGCPause is the least pause of the garbage collector that is recorded.
const longGCPause = 10 * time.Millisecond

var gc struct {
	mu     sync.Mutex // guards all below
	sample [1]metrics.Sample
}

// readLongGCPauses returns how many times the garbage collector has stopped this process for
// longGCPause or more. It does not stop the process, and allocates the first time only.
func readLongGCPauses() uint64 {
	gc.mu.Lock()
	defer gc.mu.Unlock()
	gc.sample[0].Name = "/sched/pauses/total/gc:seconds"
	metrics.Read(gc.sample[:])
	if gc.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	return countLong(gc.sample[0].Value.Float64Histogram())
}

// countLong returns the number of pauses of longGCPause or more.
func countLong(pauses *metrics.Float64Histogram) uint64 {
	var n uint64
	for i, count := range pauses.Counts {
		if pauses.Buckets[i] >= longGCPause.Seconds() {
			n += count
		}
	}
	return n
}
