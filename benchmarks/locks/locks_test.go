package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// TestMain is also the main function of the children that the tests start.
func TestMain(m *testing.M) {
	if bench.IsChild() {
		os.Exit(program.Main())
	}
	goleak.VerifyTestMain(m)
}

// short is the time of a measurement in a test. No test asserts speeds.
const short = 100 * time.Millisecond

func TestMeasure(t *testing.T) {
	for _, c := range candidates() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := measure(task{Work: workUncontended, Candidate: c.name, Goroutines: 2, Window: short})
			require.NoError(t, err)
			for _, key := range []string{"rate", "redis", "client", "p50", "p99"} {
				assert.Positive(t, p[key], key)
			}
			const polls = 30 * short // clients that poll meet each other by chance
			h, err := measure(task{Work: workHandOver, Candidate: c.name, Goroutines: 2, Window: polls})
			if c.name != leasewheelCandidate.name && err != nil {
				// Clients that poll may miss each other all the time. A client of rueidislock that
				// misses an invalidation waits for the next one, and there is none before it polls again.
				require.EqualError(t, err, bench.ErrNoHandOver.Error())
				return
			}
			require.NoError(t, err)
			for _, key := range []string{"p50", "p99", "ping", "redis", "client"} {
				assert.Positive(t, h[key], key)
			}
			assert.GreaterOrEqual(t, h["commands"], 1.5, "one command to lock and one to unlock, except at the ends")
			assert.Greater(t, h["jain"], 0.4)
			assert.LessOrEqual(t, h["jain"], 1.0)
			assert.LessOrEqual(t, h["rate"], 1/bench.HoldTime.Seconds())
		})
	}
}

func TestMeasureBatches(t *testing.T) {
	t.Parallel()
	b, err := measure(task{Work: workBatches, Candidate: leasewheelCandidate.name, Window: time.Millisecond})
	require.NoError(t, err)
	assert.Len(t, b, len(memberCounts))
	for n, ms := range b {
		assert.Positive(t, ms, n)
	}
	_, err = measure(task{Work: workBatches, Candidate: rueidisPeer.name, Window: time.Millisecond})
	require.ErrorContains(t, err, "cannot lock several")
	_, err = measure(task{Work: workBatches, Candidate: "nobody"})
	require.ErrorContains(t, err, "unknown candidate")
}

func TestFlags(t *testing.T) {
	for _, wrong := range [][]string{{"-work", "x"}, {"-only", "x"}, {"-window", "1ms"}, {"more"}, {"-x"}} {
		require.Error(t, program.Run(t.Context(), append(wrong, "-json", filepath.Join(t.TempDir(), "x")), io.Discard, io.Discard), wrong)
	}
}

// example returns figures of this module and of peers.
func example() *bench.Results {
	r := &bench.Results{Runs: []bench.Run{{}}}
	for work, figures := range map[string]map[string]bench.Values{
		workUncontended + " 1": {
			leasewheelCandidate.name: {"rate": 100, "client": 8}, redsyncPeer.name: {"rate": 101, "client": 10}, redislockPeer.name: {"rate": 120, "client": 7},
		},
		workUncontended + " 64": {leasewheelCandidate.name: {"rate": 9}, rueidisPeer.name: {"rate": 3}},
		workHandOver + " 64": {
			leasewheelCandidate.name: {"p50": 35, "p99": 81, "ping": 10, "commands": 2, "jain": 1}, rueidisPeer.name: {"p50": 340},
		},
		workBatches: {leasewheelCandidate.name: {"1": 0.1, "1000": 6}, leasewheelLoop.name: {"1": 2, "1000": 2000}},
	} {
		for name, v := range figures {
			r.Samples = append(r.Samples, bench.Sample{Work: work, Candidate: name, Values: v})
		}
	}
	return r
}

func TestReport(t *testing.T) {
	text := report(example())
	for _, want := range []string{
		"5 of 10 goals are met.",
		"| one goroutine, pairs/s ÷ redsync              | ≥ 1    | 0.99 ✗     |",
		"| one goroutine, client CPU ÷ redislock         | ≤ 1    | 1.14 ✗     |",
		"| 64 clients, hand-over p99 ÷ PING              | ≤ 8    | 8.10 ✗     |",
		"| 64 clients, hand-over p50: rueidislock ÷ ours | ≥ 10   | 9.71 ✗     |",
		"| 1,000 members                                 | ≤ 5 ms | 6 ms ✗     |",
		"| 64         | rueidislock | 3       |",
		"| 1000    | 6          | 2000                   |                     |",
	} {
		assert.Contains(t, text, want)
	}
	assert.Empty(t, report(new(bench.Results)))
}

// A run replaces what it measures in the file of results, in the document and in the chart, and keeps the rest.
func TestResultsAreJoined(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "locks.json")
	require.NoError(t, example().Save(path))
	page := filepath.Join(folder, bench.Page)
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- locks -->\nold\n<!-- end of locks -->\nafter\n"), 0o600))
	p := program
	p.Plan = func(bench.Options) ([]bench.Job, map[string]string, error) {
		return []bench.Job{{Work: workUncontended + " 1", Candidate: leasewheelCandidate.name, Measure: func(context.Context) (bench.Values, error) {
			return bench.Values{"rate": 12345}, nil
		}}}, map[string]string{"window": "7s"}, nil
	}
	require.NoError(t, p.Run(t.Context(), []string{"-json", path, "-docs", folder}, io.Discard, io.Discard))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, want := range []string{"before\n<!-- locks -->\n\nEach measured for 7s. ", "| 12345 ", "| redsync     | 101 ", "<!-- end of locks -->\nafter\n"} {
		assert.Contains(t, string(text), want)
	}
	var out strings.Builder
	require.NoError(t, p.Run(t.Context(), []string{"-json", path, "-print"}, &out, io.Discard))
	assert.Contains(t, string(text), out.String())
	svg, err := os.ReadFile(filepath.Join(folder, "bench", "batches.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(svg), ">1000 locks, ms<")
	require.NoError(t, os.WriteFile(page, nil, 0o600))
	require.ErrorContains(t, p.Run(t.Context(), []string{"-json", path, "-print", "-docs", folder}, io.Discard, io.Discard), "has no lines")
}
