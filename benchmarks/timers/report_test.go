package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// exampleResults returns a run of two rounds of the row "replace". All peers were
// three times slower in the second round.
func exampleResults() *results {
	r := &results{Runs: []runInfo{{Rounds: 2}}}
	for round, slowdown := range []float64{1, 3} {
		for peer, ns := range map[string]float64{"wheel": 100, "std": 200, "antlabs": 150, "russellluo": 160, netty: 80} {
			r.Samples = append(r.Samples, sample{job: job{peer, round, replaceOf}, Values: values{"cpu": ns * slowdown}})
		}
	}
	return r
}

// exampleProbes returns probe samples without and with other timers.
func exampleProbes() *results {
	r := &results{Runs: []runInfo{{Rounds: 1}}}
	for _, s := range []struct {
		peer string
		load int
		max  float64
	}{{"wheel", 0, 2}, {"wheel", 4, 6.5}, {"heap", 0, 2}, {"heap", 4, 7.5}, {"std", 0, 3}} {
		r.Samples = append(r.Samples, sample{
			job:    job{Peer: s.peer, Spec: probeLoads[s.load].spec()},
			Values: values{"p50": 0.5, "p99": 1, "p99.99": 1.5, "max": s.max},
		})
	}
	r.Samples = append(r.Samples, sample{job: job{Peer: "std", Spec: probeLoads[4].spec()}, Failed: "no result"})
	return r
}

func mustRow(t *testing.T, id string) row {
	w, err := rowNamed(id)
	require.NoError(t, err)
	return w
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	r := exampleResults()
	w := mustRow(t, "replace")
	ratio, ok := r.ratio(w, "wheel", "std")
	assert.True(t, ok)
	assert.InDelta(t, 0.5, ratio, 1e-9)
	best, ok := r.bestPeer(w)
	assert.True(t, ok)
	assert.Equal(t, "antlabs", best)
	_, ok = r.ratio(w, "wheel", "rfyiamcool")
	assert.False(t, ok)
}

func TestMissedGoalIsBold(t *testing.T) {
	assert.Contains(t, exampleResults().goals(), "| 200 ns |  | 0.50 (≤ 0.60) | **0.67** (≤ 0.62) antlabs | **1.25** (≤ 1.00) | **no** |")
}

func TestThePageShowsMissedGoals(t *testing.T) {
	page := exampleResults().page()
	assert.Contains(t, page, "meet all of their goals: 0.")
	assert.Regexp(t, `\| 200 ns +\| 1\.25 of Netty HashedWheelTimer, ≤ 1\.00; 0\.67 of antlabs/timer, ≤ 0\.62 +\|`, page)
	assert.Contains(t, exampleProbes().page(), "meet all of their goals: 1.")
}

func TestGoalAboveAnotherRow(t *testing.T) {
	goals := exampleProbes().goals()
	assert.Contains(t, goals, "worst lateness: 10,000,000 due over ten minutes | 6.50 ms | ≤ 7.00 |  |  |  | yes |")
	assert.Contains(t, goals, "worst lateness: 10,000,000 due over ten minutes | **7.50 ms** | ≤ 7.00 |  |  |  | **no** |")
}

func TestProbeTable(t *testing.T) {
	r := exampleProbes()
	assert.Contains(t, r.report(), "| wheel | 0.50 / 1.00 / 1.50 / 2.00 |  |  |  | 0.50 / 1.00 / 1.50 / 6.50 |\n")
	assert.Contains(t, r.report(), "| time.AfterFunc | 0.50 / 1.00 / 1.50 / 3.00 |  |  |  | no result |\n")
	assert.Empty(t, exampleResults().probes())
}

func TestJoinedRuns(t *testing.T) {
	r := exampleResults()
	r.add(exampleResults())
	assert.Equal(t, 4, r.rounds())
	figure, ok := r.figure(mustRow(t, "replace"), "std")
	assert.True(t, ok)
	assert.InDelta(t, 400, figure, 1e-9)
}

func TestPlanRotatesPeers(t *testing.T) {
	s := settings{rounds: 2, rows: []string{"replace", "fire"}, peers: []string{"wheel", "antlabs"}}
	var got []string
	for _, j := range s.plan() {
		if j.Spec.Work == "replace" {
			got = append(got, j.Peer)
		}
		if j.Spec.Tick == fineTick {
			assert.NotEqual(t, "antlabs", j.Peer, "its tick is 10 ms")
		}
	}
	assert.Equal(t, []string{"wheel", "antlabs", "antlabs", "wheel"}, got)
}

func TestPlanRepeatsOnlyOurProbes(t *testing.T) {
	s := settings{rounds: 3, rows: []string{"probe-10m-10"}}
	count := map[string]int{}
	for _, j := range s.plan() {
		count[j.Peer]++
	}
	assert.Equal(t, map[string]int{
		"wheel": 3, "heap": 3, "std": 1, "antlabs": 1, "russellluo": 1, "rfyiamcool": 1, "containerheap": 1, netty: 1,
	}, count)
}

func TestFireRowsSetBucketsOfTheWheel(t *testing.T) {
	s := settings{rounds: 1, rows: []string{"fire-64", "fire-4096"}}
	var got []job
	for _, j := range s.plan() {
		got = append(got, job{Peer: j.Peer, Spec: spec{Buckets: j.Spec.Buckets}})
	}
	assert.Equal(t, []job{{Peer: "wheel", Spec: spec{Buckets: 64}}, {Peer: "wheel", Spec: spec{Buckets: 4096}}}, got)
}

func TestLatenessIsExactTo6Percent(t *testing.T) {
	for d := time.Microsecond; d < time.Hour; d += d/7 + 1 {
		got := bucketEnd(bucketOf(int64(d)))
		assert.GreaterOrEqual(t, got, d)
		assert.LessOrEqual(t, got, d+d/15+time.Microsecond)
	}
}

func TestDocument(t *testing.T) {
	docs := t.TempDir()
	page := filepath.Join(docs, bench.Page)
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- timers -->\nold<!-- end of timers -->\nafter\n"), 0o600))
	r := exampleResults()
	r.Samples = append(r.Samples, exampleProbes().Samples...)
	require.NoError(t, r.document(docs))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^before\n.*0\.67.*after\n$`, string(text))
	assert.NotContains(t, string(text), "old")
	assert.FileExists(t, filepath.Join(docs, "bench", "replace-reset.svg"))
	svg, err := os.ReadFile(filepath.Join(docs, "bench", "probe.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(svg), ">wheel ")
}

func TestResultsSurviveJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, bench.Save(file, exampleProbes()))
	again, err := load([]string{file})
	require.NoError(t, err)
	assert.Equal(t, exampleProbes().report(), again.report())
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err = load([]string{file})
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
}

func TestCompare(t *testing.T) {
	a, b := exampleResults(), exampleResults()
	a.Environment.Go, b.Environment.Go = "go1.1", "go1.2"
	for i := range b.Samples {
		b.Samples[i].Values["cpu"] *= 2
	}
	table := compare(a, b)
	assert.Contains(t, table, "go1.2 ÷ go1.1, 2 and 2 rounds.")
	assert.Regexp(t, `1,000,000 pending +\| 2\.00 +\|`, table)
}
