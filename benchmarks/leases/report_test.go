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
)

func TestAWitnessReckonsWithTheServersClock(t *testing.T) {
	const at = 1_000_000 * time.Second // some day
	w := newWitness(nil, []string{"k"}, order{TTL: 30 * time.Second})
	f := &w.followed[0]
	w.moved(f, at)
	w.moved(f, at+10*time.Second)
	assert.Empty(t, w.seen.late, "nothing is noted before begin")
	w.begin()
	w.moved(f, at+10*time.Second) // seen twice
	w.moved(f, at+19*time.Second) // early
	w.moved(f, at+29*time.Second+7*time.Millisecond)
	w.moved(f, -2) // gone
	w.moved(f, at+50*time.Second)
	w.moved(f, at+61*time.Second)
	assert.Equal(t, []time.Duration{0, 7 * time.Millisecond, time.Second}, w.seen.late)
	assert.Equal(t, 7*time.Millisecond, w.seen.quantile(0.5))
	assert.Equal(t, time.Second, w.seen.quantile(1))
	assert.Zero(t, sightings{}.quantile(0.5))

	w.lives(21 * time.Second)
	w.lives(20 * time.Second)
	w.lives(-2) // gone
	assert.Equal(t, 20*time.Second, w.seen.least)
}

// sample has figures of two of ours and two peers.
func sample() *results {
	return &results{Leases: 100_000, TTL: 30, Window: 20, Figures: map[string]figures{
		"wheel":        {RedisCPU: 2, ClientCPU: 1, LeastPTTL: 19_960, Goroutines: 9, OwnLateP50: 1, OwnLateP99: 30},
		"heap":         {RedisCPU: 3, ClientCPU: 5, LeastPTTL: 19_940, Lost: 1},
		"redsync":      {RedisCPU: 9, ClientCPU: 20, LateP50: 3, LateP99: 480},
		"cluster:heap": {Outage: &outage{HangingP99: 51, HangingMax: 60, DeadP99: 1, DeadMax: 2}},
	}}
}

func TestGoals(t *testing.T) {
	cells := map[string][]string{}
	goals := sample().goals()
	assert.Equal(t, []string{"goal", "wanted", "wheel", "heap"}, goals[0])
	for _, row := range goals {
		cells[row[0]] = row[2:]
	}
	for name, want := range map[string][]string{
		"redis CPU per renewal":                {"2.00 µs ✓", "3.00 µs ✗"},
		"… of that of redislock":               {"–", "–"},
		"smallest PTTL seen":                   {"19960 ms ✓", "19940 ms ✗"},
		"late p99, by the client":              {"30.0 ms ✗", "0.0 ms ✓"},
		"lost without a fault":                 {"0 ✓", "1 ✗"},
		"one of three masters hangs: late p99": {"–", "51 ms ✗"},
		"one of three masters dead: late p99":  {"–", "1 ms ✓"},
	} {
		assert.Equal(t, want, cells[name], name)
	}
	what, met, measured := partOf("redsync", 4, func(f figures) float64 { return f.RedisCPU })(sample(), "wheel")
	assert.Equal(t, "1/4.50", what)
	assert.True(t, met && measured)
	_, met, _ = partOf("redsync", 5, func(f figures) float64 { return f.RedisCPU })(sample(), "wheel")
	assert.False(t, met)
}

func TestTheReportIsATable(t *testing.T) {
	report := sample().report()
	lines := strings.Split(report, "\n")
	var head string
	for _, line := range lines {
		if strings.HasPrefix(line, "| figure") {
			head = line
		}
		if strings.HasPrefix(line, "| late p50 / p99 ms, from") {
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

func TestTheChartIsXML(t *testing.T) {
	svg := sample().svg()
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

func TestResultsArePutTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	require.NoError(t, sample().save(path))
	later := &results{Leases: 100_000, TTL: 30, Figures: map[string]figures{"wheel": {RedisCPU: 7}, "redislock": {RedisCPU: 8}}}
	require.NoError(t, later.save(path))
	all, err := load(path)
	require.NoError(t, err)
	assert.Equal(t, []string{"wheel", "heap", "redsync", "redislock", "cluster:heap"}, all.names())
	assert.InDelta(t, 7, all.Figures["wheel"].RedisCPU, 0)
	assert.Equal(t, sample().Figures["cluster:heap"], all.Figures["cluster:heap"])
	require.ErrorContains(t, (&results{Leases: 10, TTL: 30}).save(path), "not the same")

	docs := t.TempDir()
	page := filepath.Join(docs, "BENCHMARKS-LEASES.md")
	require.NoError(t, os.WriteFile(page, []byte("a\n<!-- report -->\nold\n<!-- end of report -->\nb\n"), 0o600))
	var out strings.Builder
	require.NoError(t, run(t.Context(), config{print: path, docs: docs}, &out, io.Discard))
	assert.Equal(t, "\n"+all.report(), out.String())
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, "a\n<!-- report -->\n"+all.report()+"<!-- end of report -->\nb\n", string(text))
	svg, err := os.ReadFile(filepath.Join(docs, "bench", "leases.svg"))
	require.NoError(t, err)
	assert.Equal(t, all.svg(), string(svg))
	again, err := load(filepath.Join(docs, "bench", "leases.json"))
	require.NoError(t, err)
	assert.Equal(t, all, again)

	require.NoError(t, os.WriteFile(page, []byte("no lines\n"), 0o600))
	require.ErrorContains(t, all.document(docs), "has no lines")
}

func TestFlags(t *testing.T) {
	c, err := parse(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 100_000, c.leases)
	assert.Equal(t, 30*time.Second, c.ttl)
	assert.Equal(t, 12500*time.Millisecond, c.settle)
	assert.Len(t, c.only, len(contestants())+2)

	c, err = parse([]string{"-quick", "-only", "redsync,cluster:heap", "-ttl", "9s"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 10_000, c.leases)
	assert.Equal(t, 9*time.Second, c.ttl)
	assert.Equal(t, 3750*time.Millisecond, c.settle)
	assert.Equal(t, []string{"redsync", "cluster:heap"}, []string{c.only[0].title(), c.only[1].title()})

	for want, args := range map[string][]string{
		`no contestant "cog"`: {"-only", "cog"},
		"fewer than 100":      {"-leases", "10"},
		"below 1 s":           {"-ttl", "1ms"},
		"unexpected":          {"extra"},
		"not defined":         {"-nonsense"},
	} {
		var out strings.Builder
		_, err := parse(args, &out)
		require.Error(t, err)
		assert.Contains(t, out.String(), want)
	}
}

func TestWhatAServerSays(t *testing.T) {
	assert.Equal(t, "12.5", field("p50=1,p99=12.5,p100=70", "p99"))
	assert.Empty(t, field("p50=1", "p99"))
	assert.InDelta(t, 12.5, number("12.5"), 0)
}
