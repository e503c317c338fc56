package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

func TestMonitorUsesTheServersClock(t *testing.T) {
	const at = 1_000_000 * time.Second
	m := newMonitor(nil, []string{"k"}, task{TTL: 30 * time.Second})
	k := &m.tracked[0]
	m.recordExpiry(k, at)
	m.recordExpiry(k, at+10*time.Second)
	assert.Empty(t, m.observed, "nothing is recorded before begin")
	m.begin()
	m.recordExpiry(k, at+10*time.Second) // polled twice
	m.recordExpiry(k, at+19*time.Second) // early
	m.recordExpiry(k, at+29*time.Second+7*time.Millisecond)
	m.recordExpiry(k, -2) // missing
	m.recordExpiry(k, at+50*time.Second)
	m.recordExpiry(k, at+61*time.Second)
	assert.Equal(t, observations{0, 7 * time.Millisecond, time.Second}, m.observed)
	assert.Equal(t, 7*time.Millisecond, m.observed.quantile(0.5))
	assert.Equal(t, time.Second, m.observed.quantile(1))
	assert.Zero(t, observations{}.quantile(0.5))
}

// example returns figures of our engines and of a peer.
func example(work string, figures map[string]bench.Values) *bench.Results {
	r := &bench.Results{Runs: []bench.Run{{Notes: map[string]string{"TTL": "30s"}}}}
	for name, v := range figures {
		r.Samples = append(r.Samples, bench.Sample{Work: work, Candidate: name, Values: v})
	}
	return r
}

func TestReport(t *testing.T) {
	r := example("hold 100000", map[string]bench.Values{
		"wheel":        {"redis": 2, "client": 1, "lost": 0},
		"heap":         {"redis": 3, "client": 5, "lost": 1},
		"redsync":      {"redis": 9, "client": 20, "late p50": 3, "late p99": 480},
		"cluster:heap": {"hanging p99": 51, "hanging max": 60, "dead p99": 1, "dead max": 2},
	})
	text := report(r)
	for _, want := range []string{
		"| figure                                | wheel | heap | redsync | cluster:heap |",
		"| late p50 / p99 ms, by the monitors    |       |      | 3 / 480 |              |",
		"| one master hangs: late p99 / worst ms |       |      |         | 51 / 60      |",
		"1 of 7 goals are met.",
		"| redis CPU per renewal                | ≤ 2.70 µs | 2 µs ✓  | 3 µs ✗  |",
		"| … ÷ redsync                          | ≤ 0.29    | 0.22 ✓  | 0.33 ✗  |",
		"| one of three masters hangs: late p99 | ≤ 50 ms   |         | 51 ms ✗ |",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "masters dead", "a goal that is met")
	assert.Contains(t, chart(r).SVG(), ">9 + 20<")
	assert.Empty(t, report(new(bench.Results)))
}

func TestScaleReport(t *testing.T) {
	r := example("scale 10000", map[string]bench.Values{"wheel": {"client": 2, "client + redis": 4}, "heap": {"client": 2, "client + redis": 4}})
	r.Samples = append(r.Samples, example("scale 1000000", map[string]bench.Values{
		"wheel": {"client": 2.2, "client + redis": 4.2, "lost": 0}, "heap": {"client": 3, "client + redis": 5, "lost": 1},
	}).Samples...)
	text := scaleReport(r)
	assert.Regexp(t, `client CPU per renewal, 1,000,000 ÷ 10,000 leases +\| ≤ 1.15 +\| 1.10 ✓ +\| 1.50 ✗`, text)
	assert.Regexp(t, `client \+ redis CPU per renewal, 1,000,000 ÷ 10,000 leases +\| ≤ 1.15 +\| 1.05 ✓ +\| 1.25 ✗`, text)
	assert.Regexp(t, `1000000 leases: lost +\| ≤ 0 +\| 0 ✓ +\| 1 ✗`, text)
	assert.Contains(t, scaleChart(r).SVG(), ">1000000 leases<")
	assert.Empty(t, scaleReport(new(bench.Results)))
}

// A run with several numbers of leases compares our engines, as its flags say.
func TestScale(t *testing.T) {
	var out strings.Builder
	args := []string{"-leases", "100,200", "-ttl", "3s", "-window", "1s", "-quick", "-json", filepath.Join(t.TempDir(), "x.json")}
	require.NoError(t, program.Run(t.Context(), args, &out, io.Discard))
	for _, want := range []string{"| 100    | wheel ", "| 200    | heap ", "All 4 goals are met."} {
		assert.Contains(t, out.String(), want)
	}
}

func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"match -work and -only":    {"-only", "cog"},
		"a number of at least 100": {"-leases", "10"},
		"at least 1s":              {"-ttl", "1ms"},
		`-leases: "x"`:             {"-leases", "1000,x"},
		"unexpected":               {"extra"},
		"not defined":              {"-nonsense"},
	} {
		err := program.Run(t.Context(), append([]string{"-json", filepath.Join(t.TempDir(), "x.json")}, args...), io.Discard, io.Discard)
		require.ErrorContains(t, err, want)
	}
}
