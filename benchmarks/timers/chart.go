// The charts: bars of some rows, and the lateness of the probes.

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// chart shows some rows as groups of bars, with one bar for each peer.
type chart struct {
	file, title string
	rows        []string // ids
	log         bool
}

var charts = []chart{
	{file: "schedule-stop", title: "Schedule and stop: CPU", rows: []string{"hot-0", "hot-100k", "hot-1m", "hot-10m"}},
	{file: "all-cores", title: "Schedule and stop on all cores: wall time", rows: []string{"par-100k", "par-1m"}},
	{file: "replace-reset", title: "A random timer of 1,000,000: CPU", rows: []string{"replace", "reset"}},
	{file: "fire", title: "CPU per fire", rows: []string{"fire", "fire-10", "rearm", "rearm-10"}},
	{file: "lateness", title: "Lateness, 1,000,000 fires in a second (logarithmic)", rows: []string{"fire-p50", "fire-p99", "fire-max"}, log: true},
	{file: "memory", title: "1,000,000 pending", rows: []string{"bytes", "gc"}},
	{file: "heap", title: "heapqueue: CPU", rows: []string{"hot-0", "heap-near"}},
}

// probeChart shows the worst lateness of the probes against the number of pending
// timers.
func (r *results) probeChart() bench.LineChart {
	c := bench.LineChart{
		Title: "A timer of 5 ms beside others: worst lateness",
		Unit:  "ms", XLabel: "other timers pending", X: []string{"0", "1M", "10M"}, Low: 0.1,
	}
	for _, over := range []time.Duration{time.Minute, 10 * time.Minute} {
		p := bench.Panel{Title: fmt.Sprintf("others due over %.0f minutes", over.Minutes())}
		if over == time.Minute {
			p.Title = "others due over a minute"
		}
		for _, peer := range r.peerNames() {
			if s, ok := r.probeSeries(peer, over); ok {
				p.Series = append(p.Series, s)
			}
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}

// probeSeries returns the points of a peer. The first point has no other timers, so
// both panels share it.
func (r *results) probeSeries(peer string, over time.Duration) (s bench.Series, ok bool) {
	s = bench.Series{Name: titleOf(peer), Ours: isOurs(peer)}
	for _, l := range probeLoads {
		if l.over != 0 && l.over != over {
			continue
		}
		v, found := r.figure(row{sample: l.spec(), key: "max"}, peer)
		if !found {
			v = math.NaN()
		}
		ok = ok || found
		s.Values = append(s.Values, v)
	}
	return s, ok
}

// The sizes of a bar chart in pixels.
const (
	chartWidth = 760
	labelWidth = 220
	valueWidth = 90
	barHeight  = 15
	barStep    = 19
	groupGap   = 34
)

// barStyle has colours that are readable on light and on dark pages.
const barStyle = `<style>
text { font: 12px sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: bold }
.group { font-weight: bold }
.ours { fill: #0b7285 }
.other { fill: #adb5bd }
.early { fill: #e8590c }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .ours { fill: #3bc9db } .other { fill: #6c757d } }
</style>
`

// barChart draws a chart. It returns "" if none of the rows was measured.
func (r *results) barChart(c chart) string {
	var b strings.Builder
	y := 30
	for _, w := range rows {
		if slices.Contains(c.rows, w.ID) {
			y = r.group(&b, c, w, y)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n"+
		`<title>%s</title>`+"\n%s"+`<text class="title" x="8" y="20">%s</text>`+"\n%s</svg>\n",
		chartWidth, y+10, bench.Escape(c.title), barStyle, bench.Escape(c.title), b.String())
}

// group draws the bars of one row below y and returns where they end. Each group has
// its own scale, because the rows of a chart may differ in unit.
func (r *results) group(b *strings.Builder, c chart, w row, y int) int {
	type bar struct {
		peer  string
		value float64
	}
	var bars []bar
	longest := 0.0
	for _, p := range order() {
		if v, ok := r.figure(w, p); ok && p != "harness" && p != "floor" {
			bars = append(bars, bar{p, v})
			longest = max(longest, v)
		}
	}
	if len(bars) == 0 {
		return y
	}
	y += groupGap
	fmt.Fprintf(b, `<text class="group" x="8" y="%d">%s</text>`+"\n", y-8, bench.Escape(w.Name+inUnit(w)))
	for _, one := range bars {
		width := barLength(one.value, longest, c.log) * (chartWidth - labelWidth - valueWidth)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+12, bench.Escape(titleOf(one.peer)))
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, r.class(w, one.peer), labelWidth, y, max(1, width), barHeight)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+12, number(one.value))
		y += barStep
	}
	return y
}

// barLength returns the length of a bar as a part of the longest.
func barLength(v, longest float64, log bool) float64 {
	if !log {
		return v / max(longest, 1e-9)
	}
	const shortest = 0.1
	return math.Log(max(v, shortest)/shortest) / math.Log(max(longest, 2*shortest)/shortest)
}

// class returns the colour class of a bar. A peer that fires early has its own.
func (r *results) class(w row, peer string) string {
	if isOurs(peer) {
		return "ours"
	}
	if w.sample.Work != "fire" {
		return "other"
	}
	w.key = "early"
	if early, ok := r.figure(w, peer); ok && early > 0 {
		return "early"
	}
	return "other"
}
