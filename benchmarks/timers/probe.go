// The lateness of short timers while many others are pending.

package main

import (
	"runtime"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

const (
	probeDelay = 5 * time.Millisecond
	probeCount = 4 // probes that run at the same time, at even distances
)

// A peer fails a probe sample if it needs more time or memory than this to schedule
// the other timers.
const (
	maxSetupTime = time.Minute
	maxSetupRSS  = 8 << 30
)

// tooSlow and tooLarge are the values of a failed probe sample: the seconds, or the
// GiB, that were not enough.
const (
	tooSlow  = "too-slow"
	tooLarge = "too-large"
)

// probe measures how late timers of 5 ms are while s.Pending others wait, which come
// due over s.Over. Each probe is scheduled again as soon as it has fired.
//
// The sample ends s.For after it began to schedule the others, so that it includes
// the same visits of coarse buckets for all numbers of timers. It lasts at least half
// of s.For in any case.
func probe[H any](e engine[H], s spec) values {
	begin := now()
	if failed := scheduleOthers(e, s); failed != nil {
		return failed
	}
	runtime.GC()
	runProbes(e, now()+int64(200*time.Millisecond)) // warm up
	resetLateness()
	runProbes(e, max(begin+int64(s.For), now()+int64(s.For/2)))
	h := readLateness()
	v := h.values()
	v["probes"] = float64(h.fired)
	return v
}

// scheduleOthers schedules the timers that wait beside the probes. It returns the
// values of a failed sample if the peer needs too much time or memory.
func scheduleOthers[H any](e engine[H], s spec) values {
	const checkEvery = 1 << 16
	begin, lead, rng := now(), leadTime(s.Pending), seed
	for i := range s.Pending {
		due := begin + int64(lead+rng.within(s.Over))
		e.noop(time.Duration(due - now()))
		if i%checkEvery > 0 {
			continue
		}
		if time.Duration(now()-begin) > maxSetupTime {
			return values{tooSlow: maxSetupTime.Seconds()}
		}
		if bench.ProcessRSS() > maxSetupRSS {
			return values{tooLarge: maxSetupRSS >> 30}
		}
	}
	return nil
}

// runProbes schedules the probes, each again when it has fired, until the given
// time. Each probe fires at least once.
func runProbes[H any](e engine[H], end int64) {
	var wg sync.WaitGroup
	for i := range probeCount {
		wg.Go(func() {
			time.Sleep(probeDelay * time.Duration(i) / probeCount)
			fired := make(chan struct{}, 1)
			for more := true; more; more = now() < end {
				due := now() + int64(probeDelay)
				e.call(probeDelay, func() {
					recordFire(due)
					fired <- struct{}{}
				})
				<-fired
			}
		})
	}
	wg.Wait()
}
