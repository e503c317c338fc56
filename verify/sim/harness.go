// The tests that both backends share.

package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// Regression is a bug that the simulation has found, and the seeds that find it again if it
// comes back.
type Regression struct {
	Found string
	Seeds []uint64
}

// amount returns the number of schedules to play, and the maximum time for them, or 0 for no
// limit. VERIFY_SCHEDULES and VERIFY_FOR override the tier.
func (h *Harness) amount(t *testing.T, ofTier map[string]int) (schedules int, most time.Duration) {
	schedules = ofTier[simreport.Tier()]
	if text := os.Getenv("VERIFY_SCHEDULES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "VERIFY_SCHEDULES")
		schedules = n
	}
	if *schedulesFlag > 0 {
		schedules = *schedulesFlag
	}
	if text := os.Getenv("VERIFY_FOR"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, "VERIFY_FOR")
		most = d
	}
	return schedules, most
}

// TestSchedules plays the schedules of a tier, or the one that -seed names.
func (h *Harness) TestSchedules(t *testing.T, floors Floors) {
	if *seedFlag >= 0 {
		h.playAgain(t, uint64(*seedFlag))
		return
	}
	schedules, most := h.amount(t, h.Schedules)
	h.playAll(t, *fromFlag, schedules, most, 100, floors)
}

// TestWide plays schedules of the wide classes with the given names.
func (h *Harness) TestWide(t *testing.T, names []string, floors []Floors) {
	if *seedFlag >= 0 {
		return
	}
	schedules, most := h.amount(t, h.Wide)
	for class, name := range names {
		t.Run(name, func(t *testing.T) {
			seed := WideSeed(uint64(class), *fromFlag)
			h.playAll(t, seed, schedules, most/time.Duration(len(names)), min(100, h.Wide[simreport.Quick]), floors[class])
		})
	}
}

// TestRegressions plays the seeds of the regressions.
func (h *Harness) TestRegressions(t *testing.T, all []Regression) {
	for _, r := range all {
		t.Run(r.Found, func(t *testing.T) {
			for _, seed := range r.Seeds {
				h.Play(t, seed)
			}
		})
	}
	h.Report.Add("regressions %d", len(all))
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

func (h *Harness) result(t *testing.T, seed uint64, trace func(string)) Result {
	return play(t, seed, trace, h.Simulate)
}

// Play plays one schedule, and fails the test if a promise is broken.
func (h *Harness) Play(t *testing.T, seed uint64) {
	t.Helper()
	h.result(t, seed, nil).report(t, seed, h.Command)
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
	return play(t, 0, trace, func(_ uint64, trace func(string)) Result { return simulate(trace) }).Violations
}

// playAgain plays one schedule as often as the flags say, or until it fails.
func (h *Harness) playAgain(t *testing.T, seed uint64) {
	for range *timesFlag {
		var trace func(string)
		var lines []string
		if *traceFlag {
			trace = func(line string) { lines = append(lines, line) }
		}
		h.result(t, seed, trace).report(t, seed, h.Command)
		if t.Failed() || *timesFlag == 1 {
			for _, line := range lines {
				fmt.Println(line)
			}
			return
		}
	}
}

// playAll plays schedules, one after another, and reports their counts. A run with enough schedules
// must reach the floors.
func (h *Harness) playAll(t *testing.T, from uint64, schedules int, most time.Duration, enough int, floors Floors) {
	begun, before := time.Now(), liveHeap()
	all, next, end := NewCounts(), from, from+uint64(schedules)
	t.Run("all", func(t *testing.T) {
		for ; next < end && all.Violations == 0 && (most <= 0 || time.Since(begun) < most); next++ {
			result := h.result(t, next, nil)
			result.report(t, next, h.Command)
			all.Add(result.Counts)
		}
	})
	for _, line := range all.Lines() {
		h.Report.Add("%s", line)
	}
	h.Report.Add("seeds       %d to %d, %.0f s", from, next-1, time.Since(begun).Seconds())
	grown := liveHeap() - before
	h.Report.Add("memory      %.1f MB more than before", float64(grown)/1e6)
	assert.LessOrEqual(t, grown, int64(maxHeapGrowth), "schedules that have ended stay in memory")
	if t.Failed() {
		return
	}
	if most == 0 {
		assert.Equal(t, schedules, all.Schedules)
	}
	assert.Positive(t, all.Schedules)
	if all.Schedules >= enough {
		assert.Empty(t, floors.Missed(all), "a run that did less than its floor has shown nothing")
	}
}

// maxHeapGrowth is how many bytes may stay in memory after many schedules, for caches.
const maxHeapGrowth = 16 << 20

// liveHeap returns the number of bytes that are in use after a garbage collection.
func liveHeap() int64 {
	for range 3 { // what has a cleanup is freed by the collection after it
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
