package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// dice is xorshift64: a random number for about a nanosecond.
type dice uint64

func (d *dice) next() uint64 {
	x := *d
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*d = x
	return uint64(x)
}

// below is a random number below n, n up to 2³².
func (d *dice) below(n uint64) uint64 { return d.next() >> 32 * n >> 32 }

// far is a delay of one to two hours, that of all timers that stay pending.
func (d *dice) far() time.Duration {
	return time.Hour + time.Duration(d.below(3_600_000)*uint64(time.Millisecond)) + time.Duration(d.next()>>44)
}

// near is shorter than the delays of all others pending.
const near = 30 * time.Minute

// stretch is how many operations are done between two looks at the clock.
const stretch = 256

// fill arms n timers that stay pending, and keeps no handles.
func fill[H any](e engine[H], n int) {
	d := dice(88172645463325252)
	for range n {
		e.nop(d.far())
	}
	runtime.GC()
}

// ops measures arming a timer and cancelling it, with others pending: with a delay
// like those of the others, with one shorter than all, and on all cores.
func ops[H any](e engine[H], s spec) values {
	fill(e, s.Pending)
	v := values{}
	d := dice(1)
	hot := func() {
		for range stretch {
			e.stop(e.nop(d.far()))
		}
	}
	timed(hot, s.For).per(v, "hot.")
	timed(func() {
		for range stretch {
			d.far() // as hot has it, so that the two compare
			e.stop(e.nop(near))
		}
	}, s.For).per(v, "near.")
	parallel(e, s.For).per(v, "par.")
	v["par.added"] = v["par.cpu"] / v["hot.cpu"]
	return v
}

// counted is what n operations took.
type counted struct {
	spent
	n float64
}

func (c counted) per(v values, prefix string) { c.spent.per(c.n, v, prefix) }

// timed repeats f, which does stretch operations: first for a quarter of the time
// as a warm-up, then measured.
func timed(f func(), d time.Duration) counted {
	repeat := func(d time.Duration) (n float64) {
		for end := now() + int64(d); now() < end; n += stretch {
			f()
		}
		return n
	}
	repeat(d / 4)
	m := startMeter()
	n := repeat(d)
	return counted{m.stop(), n}
}

// parallel is the hot operation on all cores.
func parallel[H any](e engine[H], d time.Duration) counted {
	var total atomic.Int64
	var workers sync.WaitGroup
	m := startMeter()
	for i := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			rng := dice(i + 1)
			n := int64(0)
			for end := now() + int64(d); now() < end; n += stretch {
				for range stretch {
					e.stop(e.nop(rng.far()))
				}
			}
			total.Add(n)
		})
	}
	workers.Wait()
	return counted{m.stop(), float64(total.Load())}
}

// held arms n timers and keeps their handles.
func held[H any](e engine[H], n int) []H {
	d := dice(88172645463325252)
	handles := make([]H, n)
	for i := range handles {
		handles[i] = e.nop(d.far())
	}
	runtime.GC()
	return handles
}

// replace measures cancelling a random one of the pending timers and arming
// another: nothing of it is in a cache.
func replace[H any](e engine[H], s spec) values {
	handles := held(e, s.Pending)
	d, v := dice(1), values{}
	timed(func() {
		for range stretch {
			h := &handles[d.below(uint64(len(handles)))]
			e.stop(*h)
			*h = e.nop(d.far())
		}
	}, s.For).per(v, "")
	return v
}

// reset measures moving a random one of the pending timers.
func reset[H any](e engine[H], s spec) values {
	handles := held(e, s.Pending)
	d, v := dice(1), values{}
	timed(func() {
		for range stretch {
			h := &handles[d.below(uint64(len(handles)))]
			*h = e.reset(*h, d.far())
		}
	}, s.For).per(v, "")
	return v
}
