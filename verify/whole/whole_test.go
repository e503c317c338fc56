package whole

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

// play plays one schedule.
func play(t *testing.T, seed uint64, trace func(string)) part.Result {
	return part.Play(t, seed, trace, simulate)
}

// held fails the test if a promise was broken, and says how to see it again.
func held(t *testing.T, seed uint64, r part.Result) {
	t.Helper()
	r.Held(t, seed, "go test ./whole -run TestSchedules -times 20")
}

// schedulesOf is how many schedules a tier plays.
var schedulesOf = map[string]int{
	part.Quick: 200, part.Long: 10_000, part.Nightly: 1_000_000, part.Release: 10_000_000,
}

// amount is how many schedules to play, and how long at most, if that is bounded:
// VERIFY_SCHEDULES and VERIFY_FOR override the tier.
func amount(t *testing.T) (schedules int, most time.Duration) {
	schedules = schedulesOf[part.Tier()]
	if text := os.Getenv("VERIFY_SCHEDULES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "VERIFY_SCHEDULES")
		schedules = n
	}
	if *amountFlag > 0 {
		schedules = *amountFlag
	}
	if text := os.Getenv("VERIFY_FOR"); text != "" {
		d, err := time.ParseDuration(text)
		require.NoError(t, err, "VERIFY_FOR")
		most = d
	}
	return schedules, most
}

func TestSchedules(t *testing.T) {
	if *seedFlag >= 0 {
		again(t, uint64(*seedFlag))
		return
	}
	schedules, most := amount(t)
	playAll(t, *fromFlag, schedules, most, usual)
}

// Half as many schedules have more in them.
func TestMoreSchedules(t *testing.T) {
	if *seedFlag < 0 {
		schedules, most := amount(t)
		playAll(t, moreFrom+*fromFlag, (schedules+1)/2, most/2, usualOfMore)
	}
}

// playAll plays schedules on all processors, from a seed on, and reports what they did.
func playAll(t *testing.T, from uint64, schedules int, most time.Duration, floors part.Floors) {
	begun := time.Now()
	run := &run{all: part.NewCounts(), end: from + uint64(schedules)}
	run.next.Store(from)
	if most > 0 {
		run.until = begun.Add(most)
	}
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				run.work(t)
			})
		}
	})
	for _, line := range run.all.Lines() {
		report.Add("%s", line)
	}
	report.Add("seeds       %d to %d, %.0f s", from, run.next.Load()-1, time.Since(begun).Seconds())
	if t.Failed() {
		return
	}
	if most == 0 {
		assert.Equal(t, schedules, run.all.Schedules)
	}
	assert.Positive(t, run.all.Schedules)
	if run.all.Schedules >= 100 {
		assert.Empty(t, floors.Missed(run.all), "a run that did less than its floor has shown nothing")
	}
}

// again plays one schedule, as often as was asked for, or until it fails.
func again(t *testing.T, seed uint64) {
	for range *timesFlag {
		var trace func(string)
		var lines []string
		if *traceFlag {
			trace = func(line string) { lines = append(lines, line) }
		}
		r := play(t, seed, trace)
		held(t, seed, r)
		if t.Failed() || *timesFlag == 1 {
			for _, line := range lines {
				fmt.Println(line)
			}
			return
		}
	}
}

// run is many schedules, on all processors.
type run struct {
	next  atomic.Uint64 // seed
	end   uint64
	until time.Time // or zero

	mu  sync.Mutex // guards all
	all *part.Counts
}

func (r *run) work(t *testing.T) {
	for r.until.IsZero() || time.Now().Before(r.until) {
		seed := r.next.Add(1) - 1
		if seed >= r.end {
			r.next.Store(r.end)
			return
		}
		result := play(t, seed, nil)
		held(t, seed, result)
		r.mu.Lock()
		r.all.Add(result.Counts)
		broken := r.all.Violations > 0
		r.mu.Unlock()
		if broken {
			return
		}
	}
}

// Seeds that once found something are played in every run.
func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.found, func(t *testing.T) {
			for _, seed := range r.seeds {
				held(t, seed, play(t, seed, nil))
			}
		})
	}
	report.Add("regressions %d", len(regressions))
}
