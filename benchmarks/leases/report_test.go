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

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

func TestMonitorUsesTheServersClock(t *testing.T) {
	const at = 1_000_000 * time.Second
	m := newMonitor(nil, []string{"k"}, task{TTL: 30 * time.Second})
	k := &m.tracked[0]
	m.recordExpiry(k, at)
	m.recordExpiry(k, at+10*time.Second)
	assert.Empty(t, m.observed.late, "nothing is recorded before begin")
	m.begin()
	m.recordExpiry(k, at+10*time.Second) // polled twice
	m.recordExpiry(k, at+19*time.Second) // early
	m.recordExpiry(k, at+29*time.Second+7*time.Millisecond)
	m.recordExpiry(k, -2) // missing
	m.recordExpiry(k, at+50*time.Second)
	m.recordExpiry(k, at+61*time.Second)
	assert.Equal(t, []time.Duration{0, 7 * time.Millisecond, time.Second}, m.observed.late)
	assert.Equal(t, 7*time.Millisecond, m.observed.quantile(0.5))
	assert.Equal(t, time.Second, m.observed.quantile(1))
	assert.Zero(t, observations{}.quantile(0.5))

	m.recordTTL(21 * time.Second)
	m.recordTTL(20 * time.Second)
	m.recordTTL(-2) // missing
	assert.Equal(t, 20*time.Second, m.observed.smallestTTL)
}

// exampleResults returns figures of our engines and of a peer.
func exampleResults() *results {
	return &results{setup: setup{TTL: 30, Window: 20}, Leases: 100_000, Figures: map[string]figures{
		"wheel":        {RedisCPU: 2, ClientCPU: 1, SmallestPTTL: 19_960, Goroutines: 9, ClientLateP50: 1, ClientLateP99: 30},
		"heap":         {RedisCPU: 3, ClientCPU: 5, SmallestPTTL: 19_940, Lost: 1},
		"redsync":      {RedisCPU: 9, ClientCPU: 20, LateP50: 3, LateP99: 480},
		"cluster:heap": {Outage: &outage{HangingP99: 51, HangingMax: 60, DeadP99: 1, DeadMax: 2}},
	}}
}

func TestGoals(t *testing.T) {
	cells := map[string][]string{}
	goals := exampleResults().goals()
	assert.Equal(t, []string{"goal", "wanted", "wheel", "heap"}, goals[0])
	for _, row := range goals {
		cells[row[0]] = row[2:]
	}
	for name, want := range map[string][]string{
		"redis CPU per renewal":                {"2.00 µs ✓", "3.00 µs ✗"},
		"… ÷ redislock":                        {"–", "–"},
		"smallest PTTL":                        {"19960 ms ✓", "19940 ms ✗"},
		"late p99, by the client":              {"30.0 ms ✗", "0.0 ms ✓"},
		"lost without a fault":                 {"0 ✓", "1 ✗"},
		"one of three masters hangs: late p99": {"–", "51 ms ✗"},
		"one of three masters dead: late p99":  {"–", "1 ms ✓"},
	} {
		assert.Equal(t, want, cells[name], name)
	}
	what, met, measured := fractionOf("redsync", 4, func(f figures) float64 { return f.RedisCPU })(exampleResults(), "wheel")
	assert.Equal(t, "1/4.50", what)
	assert.True(t, met && measured)
	_, met, _ = fractionOf("redsync", 5, func(f figures) float64 { return f.RedisCPU })(exampleResults(), "wheel")
	assert.False(t, met)
}

func TestReport(t *testing.T) {
	report := exampleResults().report()
	lines := strings.Split(report, "\n")
	var head string
	for _, line := range lines {
		if strings.HasPrefix(line, "| figure") {
			head = line
		}
		if strings.HasPrefix(line, "| late p50 / p99 ms, by the monitors") {
			assert.Len(t, []rune(line), len([]rune(head)))
			assert.Contains(t, line, "3 / 480")
		}
		if strings.HasPrefix(line, "| one master hangs") {
			assert.Contains(t, line, "51 / 60")
		}
	}
	var names []string
	for cell := range strings.SplitSeq(head, "|") {
		names = append(names, strings.TrimSpace(cell))
	}
	assert.Equal(t, []string{"", "figure", "wheel", "heap", "redsync", "cluster:heap", ""}, names)
}

func TestChartIsXML(t *testing.T) {
	svg := exampleResults().svg()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	for _, text := range []string{"wheel", "redsync", "9.0 + 20.0"} {
		assert.Contains(t, svg, ">"+text+"<")
	}
}

func TestSaveJoinsResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, exampleResults().save(path))
	later := &results{setup: setup{TTL: 30}, Leases: 100_000, Figures: map[string]figures{"wheel": {RedisCPU: 7}, "redislock": {RedisCPU: 8}}}
	require.NoError(t, later.save(path))
	all, err := load[results](path)
	require.NoError(t, err)
	assert.Equal(t, []string{"wheel", "heap", "redsync", "redislock", "cluster:heap"}, all.names())
	assert.InDelta(t, 7, all.Figures["wheel"].RedisCPU, 0)
	assert.Equal(t, exampleResults().Figures["cluster:heap"], all.Figures["cluster:heap"])
	require.ErrorContains(t, (&results{setup: setup{TTL: 30}, Leases: 10}).save(path), "this run has 10 of 30 s")

	docs := t.TempDir()
	page := filepath.Join(docs, bench.Page)
	require.NoError(t, os.WriteFile(page, []byte("a\n<!-- leases -->\nold\n<!-- end of leases -->\nb\n"), 0o600))
	var out strings.Builder
	require.NoError(t, run(t.Context(), config{print: path, docs: docs}, &out, io.Discard))
	assert.Equal(t, "\n"+all.report(), out.String())
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "a\n<!-- leases -->\n\n"+all.report()+"<!-- end of leases -->\nb\n", string(text))
	svg, err := os.ReadFile(filepath.Join(docs, "bench", "leases.svg"))
	require.NoError(t, err)
	assert.Equal(t, all.svg(), string(svg))

	require.NoError(t, os.WriteFile(page, []byte("no lines\n"), 0o600))
	require.ErrorContains(t, all.document(docs), "has no lines")
}

func TestFlags(t *testing.T) {
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 100_000, c.leases)
	assert.Equal(t, 30*time.Second, c.ttl)
	assert.Equal(t, 12500*time.Millisecond, c.settle)
	assert.Len(t, c.only, len(candidates())+2)

	assert.False(t, c.scale)
	assert.Equal(t, filepath.Join("results", "leases.json"), c.json)

	c, err = parse([]string{"-leases", "1000,10000"}, io.Discard)
	require.NoError(t, err)
	assert.True(t, c.scale)
	assert.Equal(t, []int{1000, 10_000}, c.counts)
	assert.Equal(t, filepath.Join("results", "lease-scale.json"), c.json)

	c, err = parse([]string{"-quick", "-only", "redsync,cluster:heap", "-ttl", "9s"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 10_000, c.leases)
	assert.Equal(t, 9*time.Second, c.ttl)
	assert.Equal(t, 3750*time.Millisecond, c.settle)
	assert.Equal(t, []string{"redsync", "cluster:heap"}, []string{c.only[0].title(), c.only[1].title()})

	for want, args := range map[string][]string{
		`unknown candidate "cog"`: {"-only", "cog"},
		"at least 100":            {"-leases", "10"},
		"at least 1s":             {"-ttl", "1ms"},
		"not a number":            {"-leases", "1000,x"},
		"unexpected":              {"extra"},
		"not defined":             {"-nonsense"},
	} {
		var out strings.Builder
		_, err := parse(args, &out)
		require.Error(t, err)
		assert.Contains(t, out.String(), want)
	}
}

func TestServerStats(t *testing.T) {
	assert.Equal(t, "12.5", field("p50=1,p99=12.5,p100=70", "p99"))
	assert.Empty(t, field("p50=1", "p99"))
	assert.InDelta(t, 12.5, number("12.5"), 0)
}

func TestScaleGoals(t *testing.T) {
	r := &scaleResults{Points: []scalePoint{
		{"wheel", 10_000, figures{ClientCPU: 2, RedisCPU: 2}},
		{"heap", 10_000, figures{ClientCPU: 2, RedisCPU: 2}},
		{"wheel", 1_000_000, figures{ClientCPU: 2.2, RedisCPU: 2}},
		{"heap", 1_000_000, figures{ClientCPU: 3, RedisCPU: 2, Lost: 1}},
	}}
	var rows [][]string
	for _, cells := range r.goals()[1:] {
		rows = append(rows, cells[2:])
	}
	assert.Equal(t, [][]string{{"1.10 ✓", "1.50 ✗"}, {"1.05 ✓", "1.25 ✗"}, {"0 ✓", "1 ✗"}}, rows)
	assert.Contains(t, r.chart().SVG(), ">1000000<")
}
