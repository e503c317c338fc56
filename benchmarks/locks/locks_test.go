package main

import (
	"encoding/xml"
	"errors"
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
	if bench.Child() {
		os.Exit(program.Status())
	}
	goleak.VerifyTestMain(m)
}

// Nothing of what these measure is asserted to be fast.
const window = 100 * time.Millisecond

func TestEachContestantIsMeasured(t *testing.T) {
	for _, c := range contestants() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := measurePairs(order{Work: workPairs, Contestant: c.name, Goroutines: 2, Window: window})
			require.NoError(t, err)
			for what, value := range map[string]float64{"pairs": p.Rate, "redis": p.RedisCPU, "client": p.ClientCPU, "p50": p.P50, "p99": p.P99} {
				assert.Positive(t, value, what)
			}
			const polls = 30 * window // of those that do not wait, which may miss each other for a second
			h, err := measureHandOver(order{Work: workHandOver, Contestant: c.name, Goroutines: 2, Window: polls})
			if c.name == rueidisPeer.name && err != nil {
				// One of its clients that misses an invalidation waits for the next one without
				// a bound, and there is none: it has to ask before it is told again.
				require.EqualError(t, err, errNeverHandedOver.Error())
				return
			}
			require.NoError(t, err)
			for what, value := range map[string]float64{"p50": h.P50, "p99": h.P99, "ping": h.Ping, "redis": h.RedisCPU, "client": h.ClientCPU} {
				assert.Positive(t, value, what)
			}
			assert.GreaterOrEqual(t, h.Commands, 1.5, "one to lock and one to unlock, but for the ends")
			assert.Greater(t, h.Jain, 0.4)
			assert.LessOrEqual(t, h.Jain, 1.0)
			assert.LessOrEqual(t, h.Rate, 1/hold.Seconds())
		})
	}
}

func TestBatchesAreMeasured(t *testing.T) {
	t.Parallel()
	b, err := measureBatches(order{Work: workBatches, Contestant: ours.name, Window: time.Millisecond})
	require.NoError(t, err)
	for _, n := range memberCounts {
		assert.Positive(t, b[n])
	}
	_, err = measureBatches(order{Work: workBatches, Contestant: rueidisPeer.name, Window: time.Millisecond})
	require.ErrorContains(t, err, "cannot lock several")
	_, err = measureBatches(order{Work: workBatches, Contestant: "nobody"})
	require.ErrorContains(t, err, "no contestant")
}

func TestParseBatches(t *testing.T) {
	b, err := parseBatches("1 2000.5 7\n10 20000 1\n")
	require.NoError(t, err)
	assert.Equal(t, batches{1: 2.0005, 10: 20}, b)
	_, err = parseBatches("Exception in thread\n")
	require.Error(t, err)
}

func TestJain(t *testing.T) {
	assert.InDelta(t, 1, jain([]float64{3, 3, 3}), 1e-9)
	assert.InDelta(t, 1.0/3, jain([]float64{9, 0, 0}), 1e-9)
}

func TestTheFlags(t *testing.T) {
	c, err := parse([]string{"-quick", "-only", "pairs", "-clients", "3,5"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 500*time.Millisecond, c.window)
	assert.Equal(t, []string{workPairs}, c.works)
	assert.Equal(t, []int{3, 5}, c.numbers(1))
	c, err = parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []int{1}, c.numbers(1))
	assert.Len(t, c.works, 3)
	for _, wrong := range [][]string{{"-only", "x"}, {"-clients", "0"}, {"-clients", "x"}, {"-window", "1ms"}, {"more"}, {"-x"}} {
		_, err := parse(wrong, io.Discard)
		require.Error(t, err, wrong)
	}
}

// sample are results of two contestants.
func sample() *results {
	return &results{
		Pairs: map[int]map[string]pairs{
			1:  {ours.name: {Rate: 100, ClientCPU: 8}, redsyncPeer.name: {Rate: 101, ClientCPU: 10}},
			64: {ours.name: {Rate: 9}, rueidisPeer.name: {Rate: 3}},
		},
		HandOvers: map[int]map[string]handOver{64: {
			ours.name: {P50: 35, P99: 81, Ping: 10, Commands: 2, Jain: 1, Rate: 1}, rueidisPeer.name: {P50: 340, Rate: 1},
		}},
		Batches: map[string]batches{ours.name: {1: 0.1, 1000: 6}, redisson: {1: 2, 1000: 2000}},
	}
}

func TestGoals(t *testing.T) {
	reached := map[string]string{}
	for _, row := range sample().goals()[1:] {
		reached[row[0]] = row[2]
	}
	assert.Equal(t, map[string]string{
		"64 goroutines, pairs/s, of those of rueidislock":    "3.00 ✓",
		"one goroutine, pairs/s, of those of redsync":        "0.99 ✗",
		"one goroutine, client CPU, of that of redsync":      "0.80 ✓",
		"64 clients, hand-over p50 / PING":                   "3.5 ✓",
		"64 clients, hand-over p99 / PING":                   "8.1 ✗",
		"64 clients, commands per hand-over":                 "2.0000 ✓",
		"64 clients, Jain's index":                           "1.000 ✓",
		"64 clients, hand-over p50, faster than rueidislock": "9.7 × ✗",
		"1,000 members, ms":                                  "6.0 ✗",
	}, reached)
	assert.Len(t, new(results).goals(), 1, "of nothing there are no goals")
}

func TestResultsAreKeptAndDocumented(t *testing.T) {
	folder := t.TempDir()
	require.Error(t, sample().document(folder), "there is no document")
	page := filepath.Join(folder, "BENCHMARKS-LOCKS.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"+bench.ReportBegins+"old\n"+bench.ReportEnds+"after\n"), 0o600))
	require.NoError(t, sample().document(folder))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "old")
	assert.True(t, strings.HasPrefix(string(text), "before\n") && strings.HasSuffix(string(text), "after\n"))

	chart, err := os.ReadFile(filepath.Join(folder, "bench", "batches.svg"))
	require.NoError(t, err)
	for d := xml.NewDecoder(strings.NewReader(string(chart))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(folder, "bench", "locks.json")
	only := &results{Pairs: map[int]map[string]pairs{1: {ours.name: {Rate: 5}}}}
	require.NoError(t, only.save(kept))
	again := new(results)
	require.NoError(t, again.load(kept))
	assert.InDelta(t, 5, again.Pairs[1][ours.name].Rate, 0)
	assert.Equal(t, sample().Batches, again.Batches, "what was not measured anew")
}
