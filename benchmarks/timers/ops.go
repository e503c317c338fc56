// The samples of schedule, stop and reset while other timers are pending.

package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// xorshift is a random number generator that takes about a nanosecond.
type xorshift uint64

// seed is the state from which all samples draw the delays of pending timers.
const seed xorshift = 88172645463325252

func (r *xorshift) next() uint64 {
	x := *r
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = x
	return uint64(x)
}

// below returns a random number below n. n is at most 2³².
func (r *xorshift) below(n uint64) uint64 { return r.next() >> 32 * n >> 32 }

// within returns a random time below d.
func (r *xorshift) within(d time.Duration) time.Duration {
	return time.Duration(r.below(uint64(d/time.Microsecond))*1000 + r.next()>>55)
}

// longDelay returns one to two hours, the delay of timers that stay pending.
func (r *xorshift) longDelay() time.Duration {
	return time.Hour + time.Duration(r.below(3_600_000)*uint64(time.Millisecond)) + time.Duration(r.next()>>44)
}

// shortDelay is shorter than all delays of the timers that stay pending.
const shortDelay = 30 * time.Minute

// batch is the number of operations between two looks at the clock.
const batch = 256

// fill schedules n timers that stay pending. It keeps no handles.
func fill[H any](e engine[H], n int) {
	rng := seed
	for range n {
		e.noop(rng.longDelay())
	}
	runtime.GC()
}

// ops measures schedule and stop while other timers are pending: with a delay in
// the range of the others ("hot"), with a shorter one ("near"), and with long delays
// on all cores ("par").
func ops[H any](e engine[H], s spec) values {
	fill(e, s.Pending)
	v := values{}
	rng := xorshift(1)
	hot := func() {
		for range batch {
			e.stop(e.noop(rng.longDelay()))
		}
	}
	timed(hot, s.For).put(v, "hot.")
	timed(func() {
		for range batch {
			rng.longDelay() // makes the loop cost the same as hot
			e.stop(e.noop(shortDelay))
		}
	}, s.For).put(v, "near.")
	onAllCores(e, s.For).put(v, "par.")
	return v
}

// counted is the cost of n operations.
type counted struct {
	cost
	n float64
}

func (c counted) put(v values, prefix string) { c.cost.put(c.n, v, prefix) }

// timed repeats f, which does batch operations, for d. It first warms up for a
// quarter of d.
func timed(f func(), d time.Duration) counted {
	repeat := func(d time.Duration) (n float64) {
		for end := now() + int64(d); now() < end; n += batch {
			f()
		}
		return n
	}
	repeat(d / 4)
	m := startMeter()
	n := repeat(d)
	return counted{m.stop(), n}
}

// onAllCores measures schedule and stop on one engine, with a goroutine per core.
func onAllCores[H any](e engine[H], d time.Duration) counted {
	var total atomic.Int64
	var workers sync.WaitGroup
	m := startMeter()
	for i := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			rng := xorshift(i + 1)
			n := int64(0)
			for end := now() + int64(d); now() < end; n += batch {
				for range batch {
					e.stop(e.noop(rng.longDelay()))
				}
			}
			total.Add(n)
		})
	}
	workers.Wait()
	return counted{m.stop(), float64(total.Load())}
}

// pendingTimers schedules n timers and returns their handles.
func pendingTimers[H any](e engine[H], n int) []H {
	rng := seed
	handles := make([]H, n)
	for i := range handles {
		handles[i] = e.noop(rng.longDelay())
	}
	runtime.GC()
	return handles
}

// replace measures stopping a random pending timer and scheduling another. The
// processor has nothing of the timer in its caches.
func replace[H any](e engine[H], s spec) values {
	handles := pendingTimers(e, s.Pending)
	rng, v := xorshift(1), values{}
	timed(func() {
		for range batch {
			h := &handles[rng.below(uint64(len(handles)))]
			e.stop(*h)
			*h = e.noop(rng.longDelay())
		}
	}, s.For).put(v, "")
	return v
}

// reset measures moving a random pending timer.
func reset[H any](e engine[H], s spec) values {
	handles := pendingTimers(e, s.Pending)
	rng, v := xorshift(1), values{}
	timed(func() {
		for range batch {
			h := &handles[rng.below(uint64(len(handles)))]
			*h = e.reset(*h, rng.longDelay())
		}
	}, s.For).put(v, "")
	return v
}
