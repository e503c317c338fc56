package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/part"
)

// play plays one schedule. They are played one after another, for a step of the wall
// clock reaches all watchdogs of a program.
func play(t *testing.T, seed uint64, trace func(string)) part.Result {
	return part.Play(t, seed, trace, simulate)
}

// held fails the test if a promise was broken, and says how to see it again.
func held(t *testing.T, seed uint64, r part.Result) {
	t.Helper()
	r.Held(t, seed, "go test ./sim -run TestSchedules")
}

// usual is half of what a schedule does on average over all classes.
var usual = part.Floors{
	Operations: map[string]float64{
		"lock": 14, "try lock": 6, "unlock": 8, "acquire": 50, "wait": 25, "release": 40, "renew": 11, "renewed": 7, "hand-over": 1.2, "enter again": 2.2,
	},
	Faults: map[string]float64{
		"lost request": 3.5, "lost reply": 2.5, "late request": 4, "slow reply": 2.5, "twice": 0.6, "refused": 1.8,
		"partition": 0.9, "one-way partition": 0.9, "request in a partition": 6, "reply in a partition": 2.5,
		"lost signal": 0.12, "late signal": 0.08, "request while down": 20, "server down": 0.6, "data lost": 0.6, "fail-over": 0.6,
		"delete": 0.6, "steal": 0.6, "force": 0.6, "pause": 3.5, "close": 0.3, "crash": 0.2,
		"server clock ahead": 0.4, "server clock back": 0.3, "client clock ahead": 0.4, "client clock back": 0.2, "suspension": 0.2,
	},
	Losses: map[string]float64{"the store has it no more": 1.1, "its renewals failed": 0.35, "its deadline passed": 1},
	Checks: map[string]float64{
		"holding": 30, "exclusion": 0.15, "deadline": 9, "told": 1.1, "sent": 11, "unlock": 8, "token": 9,
		"left": 1, "close": 2, "served": 0.7, "noticed": 0.15, "stats": 40, "answer": 20, "loss": 2.5, "inside": 4.4,
	},
}

const (
	quickSchedules = 2000
	longSchedules  = 200_000
)

func TestSchedules(t *testing.T) {
	if *seedFlag >= 0 {
		var trace func(string)
		if *traceFlag {
			trace = func(line string) { fmt.Println(line) }
		}
		held(t, uint64(*seedFlag), play(t, uint64(*seedFlag), trace))
		return
	}
	amount := *amountFlag
	switch {
	case amount > 0:
	case part.IsLong():
		amount = longSchedules
	default:
		amount = quickSchedules
	}
	all, begun := part.NewCounts(), time.Now()
	for i := range uint64(amount) {
		r := play(t, *fromFlag+i, nil)
		all.Add(r.Counts)
		held(t, *fromFlag+i, r)
		if all.Violations > 0 {
			break
		}
	}
	for _, line := range all.Lines() {
		report.Add("%s", line)
	}
	report.Add("seeds       %d to %d, %.0f s", *fromFlag, *fromFlag+uint64(all.Schedules)-1, time.Since(begun).Seconds())
	if t.Failed() {
		return
	}
	assert.Equal(t, amount, all.Schedules)
	if amount >= 100 {
		assert.Empty(t, usual.Missed(all), "a run that did less than its floor has shown nothing")
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

// How many seeds play the same schedule again, event for event. It is not all of
// them, for the order of goroutines that run at one instant is not ours to decide.
func TestSeedsPlayTheSameAgain(t *testing.T) {
	const seeds = 200
	same := 0
	for seed := range uint64(seeds) {
		first, second := play(t, seed, nil), play(t, seed, nil)
		if first.Digest == second.Digest {
			same++
		}
	}
	report.Add("replayed    %d of %d seeds, event for event", same, seeds)
	assert.Greater(t, same, seeds/2)
}
