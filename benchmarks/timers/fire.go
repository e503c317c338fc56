// The samples of timers that fire.

package main

import (
	"runtime"
	"time"
)

// A sample fires some timers before it measures, so that the engine has grown its
// memory.
const (
	warmUpTimers = 50_000
	warmUpTime   = 300 * time.Millisecond
)

// setupDelay is the value that reports by how many milliseconds scheduling the timers
// took too long: some of them fired before the meter ran.
const setupDelay = "setup-delay"

// leadTime returns the time that scheduling n timers may take.
func leadTime(n int) time.Duration {
	return 500*time.Millisecond + time.Duration(n)*1500*time.Nanosecond
}

// fire measures s.Pending timers that come due over s.For: the processor time of
// each, from the moment at which all are scheduled, and their lateness.
func fire[H any](e engine[H], s spec) values {
	warmUp(e, warmUpTimers, warmUpTime)
	resetLateness()
	lead := leadTime(s.Pending)
	m, took := scheduleFires(e, s.Pending, lead, s.For)
	awaitFires(s.Pending, lead+s.For+20*time.Second)
	h := readLateness()
	v := h.values()
	v["cpu"] = float64(m.stop().cpu) / float64(s.Pending)
	v[setupDelay] = max(0, float64(took-lead)/1e6)
	return v
}

// warmUp fires n timers over d and waits for them.
func warmUp[H any](e engine[H], n int, d time.Duration) {
	scheduleFires(e, n, 100*time.Millisecond, d)
	awaitFires(n, 20*time.Second)
}

// scheduleFires schedules n timers that come due over d, from lead after now on, in
// random order. It returns a meter that starts
// when all are scheduled and the garbage of before is collected.
func scheduleFires[H any](e engine[H], n int, lead, d time.Duration) (m *meter, took time.Duration) {
	start := now()
	rng := seed
	for range n {
		due := start + int64(lead+rng.within(d))
		e.fire(time.Duration(due-now()), due)
	}
	runtime.GC()
	took = time.Duration(now() - start)
	return startMeter(), took
}

// awaitFires returns after n timers have fired, or after the timeout.
func awaitFires(n int, timeout time.Duration) {
	for end := now() + int64(timeout); now() < end; time.Sleep(20 * time.Millisecond) {
		if h := readLateness(); h.fired >= uint64(n) {
			return
		}
	}
}

// rearm measures s.Pending timers that each fire once a second, spread evenly over
// the second: the processor time of one fire with its rescheduling.
func rearm[H any](e engine[H], s spec) values {
	const period, step = time.Second, time.Millisecond
	steps := int(period / step)
	start := now()
	for i := range steps {
		for range s.Pending / steps {
			e.every(period)
		}
		time.Sleep(time.Duration(start + int64(i+1)*int64(step) - now()))
	}
	time.Sleep(period / 4)
	m, before := startMeter(), periodicCalls()
	time.Sleep(s.For)
	n := float64(periodicCalls() - before)
	return values{"cpu": float64(m.stop().cpu) / max(1, n)}
}

// spread measures the share of a core that an engine needs while s.Pending timers
// come due over a minute.
func spread[H any](e engine[H], s spec) values {
	const lead = 3 * time.Second
	m, _ := scheduleFires(e, s.Pending, lead, time.Minute)
	time.Sleep(s.For)
	return values{"core": m.stop().share()}
}
