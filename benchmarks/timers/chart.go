package main

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chart shows some rows as bars, one for each peer.
type chart struct {
	file, title string
	rows        []string // ids
	log         bool
}

var charts = []chart{
	{file: "schedule-cancel", title: "Schedule and cancel: CPU", rows: []string{"hot-0", "hot-100k", "hot-1m", "hot-10m"}},
	{file: "all-cores", title: "Schedule and cancel on all cores: wall time", rows: []string{"par-100k", "par-1m"}},
	{file: "replace-reset", title: "Random ones of 1,000,000 pending: CPU", rows: []string{"replace", "reset"}},
	{file: "fire", title: "CPU per fire", rows: []string{"fire", "fire-10", "rearm", "rearm-10"}},
	{file: "lateness", title: "Lateness, 1,000,000 fires in a second (logarithmic)", rows: []string{"fire-p50", "fire-p99", "fire-max"}, log: true},
	{file: "memory", title: "1,000,000 pending", rows: []string{"bytes", "gc"}},
	{file: "heap", title: "heapqueue: CPU", rows: []string{"hot-0", "heap-near"}},
}

// The measures of a chart, in pixels.
const (
	chartWidth = 760
	labelWidth = 220
	valueWidth = 90
	barHeight  = 15
	barStep    = 19
	groupGap   = 34
)

// style gives the charts colours that can be read on a light and on a dark page.
const style = `<style>
text { font: 12px sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: bold }
.group { font-weight: bold }
.ours { fill: #0b7285 }
.other { fill: #adb5bd }
.early { fill: #e8590c }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .other { fill: #6c757d } }
</style>
`

func (r *results) draw(folder string) error {
	for _, c := range charts {
		svg := r.svg(c)
		if svg == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, c.file+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// svg draws a chart; it is empty if nothing of it was measured.
func (r *results) svg(c chart) string {
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
		chartWidth, y+10, html.EscapeString(c.title), style, html.EscapeString(c.title), b.String())
}

// group draws the bars of one row below y and returns where they end. Each group
// has a scale of its own, as the rows of a chart may differ in unit.
func (r *results) group(b *strings.Builder, c chart, w row, y int) int {
	type bar struct {
		peer  string
		value float64
	}
	var bars []bar
	longest := 0.0
	for _, p := range order() {
		if v, ok := r.figure(w, p); ok && p != "harness" {
			bars = append(bars, bar{p, v})
			longest = max(longest, v)
		}
	}
	if len(bars) == 0 {
		return y
	}
	y += groupGap
	fmt.Fprintf(b, `<text class="group" x="8" y="%d">%s</text>`+"\n", y-8, html.EscapeString(w.Name+inUnit(w)))
	for _, one := range bars {
		width := share(one.value, longest, c.log) * (chartWidth - labelWidth - valueWidth)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+12, html.EscapeString(titleOf(one.peer)))
		fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, r.class(w, one.peer), labelWidth, y, max(1, width), barHeight)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+12, number(one.value))
		y += barStep
	}
	return y
}

// share is the length of a bar as a part of the longest.
func share(v, longest float64, log bool) float64 {
	if !log {
		return v / max(longest, 1e-9)
	}
	const least = 0.1
	return math.Log(max(v, least)/least) / math.Log(max(longest, 2*least)/least)
}

// class is the colour of a bar: ours, one that buys its figure with early fires,
// or another.
func (r *results) class(w row, peer string) string {
	if peer == "wheel" || peer == "heap" || peer == "wheel-go" {
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
