package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// example returns a run of two rounds of the row "replace". All peers were
// three times slower in the second round.
func example() *bench.Results {
	r := &bench.Results{Runs: []bench.Run{{Go: "go1.1"}}}
	for round, slowdown := range []float64{1, 3} {
		for peer, ns := range map[string]float64{"wheel": 100, "std": 200, "antlabs": 150, "russellluo": 160, netty: 80} {
			r.Samples = append(r.Samples, bench.Sample{Work: replaceOf.name(), Candidate: peer, Round: round, Values: values{"cpu": ns * slowdown}})
		}
	}
	return r
}

// exampleProbes returns probe samples without and with other timers.
func exampleProbes() *bench.Results {
	r := &bench.Results{Runs: []bench.Run{{}}}
	for _, s := range []struct {
		peer string
		load int
		max  float64
	}{{"wheel", 0, 2}, {"wheel", 4, 6.5}, {"heap", 0, 2}, {"heap", 4, 7.5}, {"std", 0, 3}} {
		r.Samples = append(r.Samples, bench.Sample{
			Work: probeLoads[s.load].spec().name(), Candidate: s.peer,
			Values: values{"p50": 0.5, "p99": 1, "max": s.max},
		})
	}
	r.Samples = append(r.Samples, bench.Sample{Work: probeLoads[4].spec().name(), Candidate: "std", Failed: "no result"})
	return r
}

func TestThePageShowsMissedGoals(t *testing.T) {
	text := page(example())
	assert.Contains(t, text, "1 of 3 goals are met.")
	assert.Regexp(t, `÷ antlabs/timer +\| ≤ 0\.62 +\| 0\.67 ✗ +\|`, text)
	assert.Regexp(t, `÷ Netty HashedWheelTimer +\| ≤ 1 +\| 1\.25 ✗ +\|`, text)
	text = page(exampleProbes())
	assert.Contains(t, text, "1 of 2 goals are met.")
	assert.Regexp(t, `heapqueue: .*worst lateness: 10,000,000 due over ten minutes +\| ≤ 7 ms +\| 7\.50 ms ✗`, text, "5 ms above that with nothing pending")
}

func TestAllSpecsHaveNamesOfTheirOwn(t *testing.T) {
	names := map[string]spec{}
	for _, w := range rows {
		if other, known := names[w.sample.name()]; known {
			assert.Equal(t, other, w.sample)
		}
		names[w.sample.name()] = w.sample
	}
}

func TestPlanRotatesPeers(t *testing.T) {
	var got []string
	for _, j := range plan(false, 2) {
		if j.Spec.Work == "replace" && (j.Peer == "wheel" || j.Peer == "antlabs") {
			got = append(got, j.Peer)
		}
		if j.Spec.Tick == fineTick {
			assert.NotEqual(t, "antlabs", j.Peer, "its tick is 10 ms")
		}
	}
	assert.Equal(t, []string{"wheel", "antlabs", "antlabs", "wheel"}, got)
}

func TestPlanRepeatsOnlyOurProbes(t *testing.T) {
	count := map[string]int{}
	for _, j := range plan(false, 3) {
		if j.Spec == probeLoads[4].spec() {
			count[j.Peer]++
		}
	}
	assert.Equal(t, map[string]int{"wheel": 3, "heap": 3, "std": 1, "antlabs": 1, "russellluo": 1, "containerheap": 1, netty: 1}, count)
}

func TestLatenessIsExactTo6Percent(t *testing.T) {
	for d := time.Microsecond; d < time.Hour; d += d/7 + 1 {
		got := bucketEnd(bucketOf(int64(d)))
		assert.GreaterOrEqual(t, got, d)
		assert.LessOrEqual(t, got, d+d/15+time.Microsecond)
	}
}

func TestCharts(t *testing.T) {
	docs := t.TempDir()
	path := filepath.Join(docs, "timers.json")
	r := example()
	r.Samples = append(r.Samples, exampleProbes().Samples...)
	require.NoError(t, r.Save(path))
	require.NoError(t, os.WriteFile(filepath.Join(docs, bench.Page), []byte("<!-- timers -->\nold\n<!-- end of timers -->\n"), 0o600))
	require.NoError(t, program.Run(t.Context(), []string{"-print", "-json", path, "-docs", docs}, io.Discard, io.Discard))
	assert.FileExists(t, filepath.Join(docs, "bench", "replace-reset.svg"))
	assert.NoFileExists(t, filepath.Join(docs, "bench", "memory.svg"), "not measured")
	svg, err := os.ReadFile(filepath.Join(docs, "bench", "probe.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(svg), ">wheel<")
}

func TestASampleThatFailsHasAReason(t *testing.T) {
	for want, v := range map[string]values{
		"the machine was too busy": {setupDelay: 5},
		"not scheduled in 60 s":    {tooSlow: 60},
		"needs over 8 GiB":         {tooLarge: 8},
	} {
		tries := 0
		_, err := job{Spec: fireOf(fineTick)}.measure(t.Context(), func(context.Context) (values, error) {
			tries++
			return v, nil
		})
		require.ErrorIs(t, err, bench.OutcomeError(want))
		if v[setupDelay] > 0 {
			assert.Equal(t, 3, tries)
		}
	}
	failing := func(context.Context) (values, error) { return nil, io.EOF }
	_, err := job{Spec: probeOf(million, 0)}.measure(t.Context(), failing)
	require.ErrorIs(t, err, bench.OutcomeError("no result"))
	_, err = job{Spec: replaceOf}.measure(t.Context(), failing)
	require.ErrorIs(t, err, io.EOF)
	v, err := job{Spec: replaceOf}.measure(t.Context(), func(context.Context) (values, error) { return values{"cpu": 7}, nil })
	require.NoError(t, err)
	assert.Equal(t, values{"cpu": 7}, v)
}

// A sample of a child has the figures of the peer.
func TestAChildTakesASample(t *testing.T) {
	v, err := job{Peer: "wheel", Spec: spec{Work: "ops", Pending: 100, For: time.Millisecond}}.inChild(t.Context())
	require.NoError(t, err)
	assert.Positive(t, v["hot.cpu"])
	_, err = job{Peer: "nobody"}.inChild(t.Context())
	require.ErrorContains(t, err, `unknown peer "nobody"`)
}
