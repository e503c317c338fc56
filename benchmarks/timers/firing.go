package main

import (
	"runtime"
	"time"
)

// A few timers are fired before the clock starts: what grows once has grown, and a
// JVM has compiled what it runs.
const (
	warmTimers = 50_000
	warmFor    = 300 * time.Millisecond
)

// fire measures s.Pending timers that come due over s.For: processor time of each,
// from the moment all are armed, and how late they were.
func fire[H any](e engine[H], s spec) values {
	burst(e, warmTimers, warmFor)
	forget()
	lead := 500*time.Millisecond + time.Duration(s.Pending)*1500*time.Nanosecond
	m, armed := volley(e, s.Pending, lead, s.For)
	wait(s.Pending, lead+s.For+20*time.Second)
	sum := tallied()
	v := sum.values()
	v["cpu"] = float64(m.stop().cpu) / float64(s.Pending)
	v["missing"] = float64(s.Pending) - float64(sum.fired)
	v[spoilt] = max(0, float64(armed-lead)/1e6)
	return v
}

// spoilt is the value that says by how many milliseconds the arming of the timers
// took longer than it should: some fired before the meter ran.
const spoilt = "spoilt"

// burst fires n timers over d and waits for them.
func burst[H any](e engine[H], n int, d time.Duration) {
	volley(e, n, 100*time.Millisecond, d)
	wait(n, 20*time.Second)
}

// volley arms n timers that come due over d, from lead after now, in random
// order. It starts the meter when all are armed and garbage of before is gone.
func volley[H any](e engine[H], n int, lead, d time.Duration) (m *meter, took time.Duration) {
	start := now()
	rng := dice(88172645463325252)
	for range n {
		due := start + int64(lead) + int64(rng.below(uint64(d/time.Microsecond))*1000+rng.next()>>55)
		e.fire(time.Duration(due-now()), due)
	}
	runtime.GC()
	took = time.Duration(now() - start)
	return startMeter(), took
}

// wait returns when n timers have fired, or the time is over.
func wait(n int, atMost time.Duration) {
	for end := now() + int64(atMost); now() < end; time.Sleep(20 * time.Millisecond) {
		if sum := tallied(); sum.fired >= uint64(n) {
			return
		}
	}
}

func (t *tally) values() values {
	return values{
		"early":    float64(t.early) / max(1, float64(t.fired)) * 100,
		"earliest": float64(-t.worst) / 1e6,
		"p50":      float64(t.quantile(0.50)) / 1e6,
		"p99":      float64(t.quantile(0.99)) / 1e6,
		"max":      float64(t.quantile(1)) / 1e6,
	}
}

// forget empties the arrivals.
func forget() {
	for i := range arrivals {
		part := &arrivals[i]
		part.early.Store(0)
		part.worst.Store(0)
		for b := range part.late {
			part.late[b].Store(0)
		}
	}
}

// rearm measures s.Pending timers that fire once a second each, spread over the
// second, and are armed again each time: processor time of one such turn.
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
	m, before := startMeter(), beaten()
	time.Sleep(s.For)
	n := float64(beaten() - before)
	took := m.stop()
	return values{
		"cpu":  float64(took.cpu) / max(1, n),
		"rate": n / float64(s.Pending) / took.wall.Seconds() * period.Seconds() * 100,
	}
}

// spread measures what it costs, as a share of a core, to have s.Pending timers
// come due over a minute.
func spread[H any](e engine[H], s spec) values {
	const lead = 3 * time.Second
	m, _ := volley(e, s.Pending, lead, time.Minute)
	time.Sleep(s.For)
	took := m.stop()
	sum := tallied()
	v := sum.values()
	v["core"] = took.cpu.Seconds() / took.wall.Seconds() * 100
	v["fired"] = float64(sum.fired)
	return v
}
