// The tests that both backends share.

package sim

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

var (
	seedFlag      = flag.Int64("seed", -1, "play this schedule only")
	traceFlag     = flag.Bool("trace", false, "print everything that happens in a schedule that is played alone")
	timesFlag     = flag.Int("times", 1, "how often to play a schedule that is played alone")
	fromFlag      = flag.Uint64("from", 0, "the first seed of the schedules to play")
	schedulesFlag = flag.Int("schedules", 0, "how many schedules to play; 0: as many as the tier says")
)

// Harness plays the schedules of a backend in tests, and reports what they did.
type Harness struct {
	Command  string                                       // plays one schedule
	Simulate func(seed uint64, trace func(string)) Result // must be called in a bubble
	Report   *simreport.Report

	Schedules map[string]int // by tier
	Wide      map[string]int // by tier, for each wide class
}

// amount returns the number of schedules to play.
func amount(ofTier map[string]int) int { return cmp.Or(*schedulesFlag, ofTier[simreport.Tier()]) }

// TestSchedules plays the schedules of a tier, or the one that -seed names.
func (h *Harness) TestSchedules(t *testing.T, floors Floors) {
	if *seedFlag >= 0 {
		h.playAgain(t, uint64(*seedFlag))
		return
	}
	h.playAll(t, *fromFlag, amount(h.Schedules), 100, floors)
}

// TestWide plays schedules of the wide classes with the given names.
func (h *Harness) TestWide(t *testing.T, names []string, floors []Floors) {
	if *seedFlag >= 0 {
		return
	}
	for class, name := range names {
		t.Run(name, func(t *testing.T) {
			seed := WideSeed(uint64(class), *fromFlag)
			h.playAll(t, seed, amount(h.Wide), min(100, h.Wide[simreport.Quick]), floors[class])
		})
	}
}

// TestSeeds plays some schedules.
func (h *Harness) TestSeeds(t *testing.T, seeds ...uint64) {
	for _, seed := range seeds {
		h.Play(t, seed)
	}
}

// TestReplay counts the seeds that play the same schedule again, event for event. Some do not,
// because the order of goroutines that run at one instant does not depend on the seed.
func (h *Harness) TestReplay(t *testing.T) {
	const seeds = 200
	same := 0
	for seed := range uint64(seeds) {
		first, second := h.result(t, seed, nil), h.result(t, seed, nil)
		if first.Digest == second.Digest {
			same++
		}
	}
	h.Report.Add("replayed    %d of %d seeds, event for event", same, seeds)
	assert.Greater(t, same, seeds/2)
}

// Result is the result of a schedule.
type Result struct {
	Counts     *Counts
	Violations []string
	Digest     uint64 // see World
}

// play plays a schedule in its own bubble. The trace may be nil.
func play(t *testing.T, trace func(string), simulate func(func(string)) Result) (r Result) {
	r.Counts = NewCounts()
	defer func() {
		if p := recover(); p != nil {
			r.Violations = append(r.Violations, fmt.Sprintf("R1: %v", p))
			r.Counts.Violations++
		}
	}()
	synctest.Test(t, func(*testing.T) { r = simulate(trace) })
	return r
}

func (h *Harness) result(t *testing.T, seed uint64, trace func(string)) Result {
	return play(t, trace, func(trace func(string)) Result { return h.Simulate(seed, trace) })
}

// Play plays one schedule, and fails the test if a promise is broken.
func (h *Harness) Play(t *testing.T, seed uint64) { h.playOnce(t, seed, nil) }

// playOnce is Play with a trace. A failure has the command that plays the schedule again.
func (h *Harness) playOnce(t *testing.T, seed uint64, trace func(string)) *Counts {
	r := h.result(t, seed, trace)
	for _, v := range r.Violations {
		t.Errorf("seed %d: %s", seed, v)
	}
	if len(r.Violations) > 0 {
		t.Logf("in folder verify, to see it again: %s -seed %d -args -trace", h.Command, seed)
	}
	return r.Counts
}

// Violations plays one schedule, and returns the broken promises.
func (h *Harness) Violations(t *testing.T, seed uint64) []string {
	return h.result(t, seed, nil).Violations
}

// Tell plays a schedule that a test describes instead of a seed, and returns the broken
// promises.
func Tell(t *testing.T, simulate func(trace func(string)) Result) []string {
	t.Helper()
	var trace func(string)
	if *traceFlag {
		trace = func(line string) { fmt.Println(line) }
	}
	return play(t, trace, simulate).Violations
}

// playAgain plays one schedule as often as the flags request, or until it fails.
func (h *Harness) playAgain(t *testing.T, seed uint64) {
	for range *timesFlag {
		var lines []string
		h.playOnce(t, seed, func(line string) { lines = append(lines, line) })
		if t.Failed() || *timesFlag == 1 {
			if *traceFlag {
				fmt.Println(strings.Join(lines, "\n"))
			}
			return
		}
	}
}

// playAll plays schedules, one after another, and reports their counts. A run with enough schedules
// must reach the floors.
func (h *Harness) playAll(t *testing.T, from uint64, schedules, enough int, floors Floors) {
	begun, before := time.Now(), liveHeap()
	all, next, end := NewCounts(), from, from+uint64(schedules)
	t.Run("all", func(t *testing.T) {
		for ; next < end && all.Violations == 0; next++ {
			all.Add(h.playOnce(t, next, nil))
		}
	})
	for _, line := range all.Lines() {
		h.Report.Add("%s", line)
	}
	h.Report.Add("seeds       %d to %d, %.0f s", from, next-1, time.Since(begun).Seconds())
	grown := liveHeap() - before
	h.Report.Add("memory      %.1f MB more than before", float64(grown)/1e6)
	assert.LessOrEqual(t, grown, int64(16<<20), "schedules that have ended stay in memory")
	if t.Failed() {
		return
	}
	assert.Equal(t, schedules, all.Schedules)
	if all.Schedules >= enough {
		assert.Empty(t, floors.Missed(all), "a run that did less than its floor has shown nothing")
	}
}

// liveHeap returns the number of bytes that are in use after a garbage collection.
func liveHeap() int64 {
	for range 3 { // what has a cleanup is freed by the collection after it
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
