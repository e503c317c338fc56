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
	if bench.IsChild() {
		os.Exit(program.Main())
	}
	goleak.VerifyTestMain(m)
}

// window is the time of a measurement in a test. No test asserts speeds.
const window = 100 * time.Millisecond

func TestMeasure(t *testing.T) {
	for _, c := range candidates() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := measureUncontended(task{Work: workUncontended, Candidate: c.name, Goroutines: 2, Window: window})
			require.NoError(t, err)
			for what, value := range map[string]float64{"pairs": p.Rate, "redis": p.RedisCPU, "client": p.ClientCPU, "p50": p.P50, "p99": p.P99} {
				assert.Positive(t, value, what)
			}
			const polls = 30 * window // clients that poll may miss each other for a second
			h, err := measureHandOver(task{Work: workHandOver, Candidate: c.name, Goroutines: 2, Window: polls})
			if c.name == rueidisPeer.name && err != nil {
				// A client of rueidislock that misses an invalidation waits for the next one
				// without a timeout. There is none before it polls again.
				require.EqualError(t, err, errNoHandOver.Error())
				return
			}
			require.NoError(t, err)
			for what, value := range map[string]float64{"p50": h.P50, "p99": h.P99, "ping": h.Ping, "redis": h.RedisCPU, "client": h.ClientCPU} {
				assert.Positive(t, value, what)
			}
			assert.GreaterOrEqual(t, h.Commands, 1.5, "one command to lock and one to unlock, except at the ends")
			assert.Greater(t, h.Jain, 0.4)
			assert.LessOrEqual(t, h.Jain, 1.0)
			assert.LessOrEqual(t, h.Rate, 1/holdTime.Seconds())
		})
	}
}

func TestMeasureBatches(t *testing.T) {
	t.Parallel()
	b, err := measureBatches(task{Work: workBatches, Candidate: leasewheelCandidate.name, Window: time.Millisecond})
	require.NoError(t, err)
	for _, n := range memberCounts {
		assert.Positive(t, b[n])
	}
	_, err = measureBatches(task{Work: workBatches, Candidate: rueidisPeer.name, Window: time.Millisecond})
	require.ErrorContains(t, err, "cannot lock several")
	_, err = measureBatches(task{Work: workBatches, Candidate: "nobody"})
	require.ErrorContains(t, err, "unknown candidate")
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

func TestFlags(t *testing.T) {
	c, err := parse([]string{"-quick", "-only", "uncontended", "-clients", "3,5"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 500*time.Millisecond, c.window)
	assert.Equal(t, []string{workUncontended}, c.works)
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

// exampleResults returns figures of this module and of peers.
func exampleResults() *results {
	return &results{
		Uncontended: map[int]map[string]uncontended{
			1:  {leasewheelCandidate.name: {Rate: 100, ClientCPU: 8}, redsyncPeer.name: {Rate: 101, ClientCPU: 10}, redislockPeer.name: {Rate: 120, ClientCPU: 7}},
			64: {leasewheelCandidate.name: {Rate: 9}, rueidisPeer.name: {Rate: 3}},
		},
		HandOvers: map[int]map[string]handOver{64: {
			leasewheelCandidate.name: {P50: 35, P99: 81, Ping: 10, Commands: 2, Jain: 1, Rate: 1}, rueidisPeer.name: {P50: 340, Rate: 1},
		}},
		Batches: map[string]batches{leasewheelCandidate.name: {1: 0.1, 1000: 6}, redisson: {1: 2, 1000: 2000}},
	}
}

func TestGoals(t *testing.T) {
	figures := map[string]string{}
	for _, row := range exampleResults().goals()[1:] {
		figures[row[0]] = row[2]
	}
	assert.Equal(t, map[string]string{
		"64 goroutines, pairs/s ÷ rueidislock":          "3.00 ✓",
		"one goroutine, pairs/s ÷ redsync":              "0.99 ✗",
		"one goroutine, client CPU ÷ redsync":           "0.80 ✓",
		"one goroutine, client CPU ÷ redislock":         "1.14 ✗",
		"64 clients, hand-over p50 / PING":              "3.5 ✓",
		"64 clients, hand-over p99 / PING":              "8.1 ✗",
		"64 clients, commands per hand-over":            "2.0000 ✓",
		"64 clients, Jain's index":                      "1.000 ✓",
		"64 clients, hand-over p50: rueidislock ÷ ours": "9.7 × ✗",
		"1,000 members, ms":                             "6.0 ✗",
	}, figures)
	assert.Len(t, new(results).goals(), 1, "no figures, no goals")
}

func TestDocumentAndSave(t *testing.T) {
	folder := t.TempDir()
	require.Error(t, exampleResults().document(folder), "the document does not exist")
	page := filepath.Join(folder, bench.Page)
	require.NoError(t, os.WriteFile(page, []byte("before\n<!-- locks -->\nold\n<!-- end of locks -->\nafter\n"), 0o600))
	require.NoError(t, exampleResults().document(folder))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "old")
	assert.True(t, strings.HasPrefix(string(text), "before\n") && strings.HasSuffix(string(text), "\nafter\n"))

	chart, err := os.ReadFile(filepath.Join(folder, "bench", "batches.svg"))
	require.NoError(t, err)
	for d := xml.NewDecoder(strings.NewReader(string(chart))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(folder, "locks.json")
	require.NoError(t, exampleResults().save(kept))
	only := &results{Uncontended: map[int]map[string]uncontended{1: {leasewheelCandidate.name: {Rate: 5}}}}
	require.NoError(t, only.save(kept))
	again := new(results)
	require.NoError(t, again.load(kept))
	assert.InDelta(t, 5, again.Uncontended[1][leasewheelCandidate.name].Rate, 0)
	assert.Equal(t, exampleResults().Batches, again.Batches, "the second run did not measure them")
}
