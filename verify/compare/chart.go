// The pictures of the tables.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

// picture is bars of the clients, in a panel for each fault or figure.
type picture struct {
	file   string
	title  string
	panels []panel
	units  bool // each panel has a unit, and a scale, of its own
}

type panel struct {
	title string
	bars  []bar
}

// bar is what a client did in the rounds of one fault.
type bar struct {
	name          string
	ours          bool
	value, beyond float64 // the ends of the bar and of the line; they begin at 0
	label         string
}

// The sizes of the picture in pixels.
const (
	nameWidth   = 290.0
	panelWidth  = 250.0
	panelGap    = 30.0
	valueWidth  = 60.0
	barHeight   = 12.0
	rowHeight   = 22.0
	chartTop    = 66.0
	chartBottom = 16.0
)

// chartStyle has colours that are readable on light and on dark pages.
const chartStyle = `<style>
text { font: 12px sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: bold }
.panel { font-weight: bold }
.axis { stroke: #adb5bd }
.bar { fill: #868e96 }
.beyond { stroke: #868e96; stroke-width: 2 }
.ours { fill: #0b7285 }
.beyond.ours { stroke: #0b7285 }
text.ours { font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .axis { stroke: #495057 } .bar { fill: #adb5bd } .beyond { stroke: #adb5bd }
.ours { fill: #3bc9db } .beyond.ours { stroke: #3bc9db }
}
</style>
`

const waitersPicture = "compare-waiters"

// pictures returns the pictures for which there are rows.
func (r *results) pictures() (all []picture) {
	for _, q := range questions() {
		p := picture{file: q.picture, title: q.pictureTitle}
		for _, name := range q.shown {
			p.panels = append(p.panels, panel{faults()[faultOrder(name)].title, r.bars(q.shown, name, q.bar)})
		}
		all = append(all, p)
	}
	p := picture{file: waitersPicture, title: fmt.Sprintf("%d clients take turns", waiting), units: true}
	for _, f := range costFigures()[:4] {
		one := func(rows []row) bar {
			v := middle(rows, f.of)
			return bar{value: v, beyond: v, label: fmt.Sprintf(f.format, v)}
		}
		p.panels = append(p.panels, panel{f.title, r.bars([]string{f.fault}, f.fault, one)})
	}
	all = append(all, p)
	return slices.DeleteFunc(all, func(p picture) bool { return len(p.panels[0].bars) == 0 })
}

// bars returns the bars of one fault, for the clients that have rows of some of the faults.
func (r *results) bars(some []string, name string, of func(rows []row) bar) (bars []bar) {
	for _, c := range r.measured() {
		if c.hidden || !slices.ContainsFunc(some, func(f string) bool { return len(r.of(c.name, f)) > 0 }) {
			continue
		}
		b := bar{label: "–"}
		if rows := r.of(c.name, name); len(rows) > 0 {
			b = of(rows)
		}
		b.name, b.ours = c.name, strings.HasPrefix(c.name, ours)
		bars = append(bars, b)
	}
	return bars
}

// spread returns a bar to the median of a figure, with a line to the worst.
func spread(figure func(r row) (float64, bool)) func(rows []row) bar {
	return func(rows []row) bar {
		var all []float64
		for _, r := range rows {
			if v, ok := figure(r); ok {
				all = append(all, v)
			}
		}
		if len(all) == 0 {
			return bar{label: "–"}
		}
		slices.Sort(all)
		return bar{value: median(all), beyond: all[len(all)-1], label: number(median(all))}
	}
}

// most is the end of each scale. Longer bars end there.
const most = 20_000

// scale returns the least and the greatest value of panels, around 0.
func scale(panels ...panel) (low, high float64) {
	high = 1
	for _, p := range panels {
		for _, b := range p.bars {
			low, high = min(low, b.value, b.beyond), max(high, b.value, b.beyond)
		}
	}
	return max(low, -most), min(high, most)
}

// draw draws panels side by side. The names stand left of the first.
func (p picture) draw() string {
	width := nameWidth + float64(len(p.panels))*(panelWidth+panelGap)
	height := chartTop + rowHeight*float64(len(p.panels[0].bars)) + chartBottom
	low, high := scale(p.panels...)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img">`+"\n<title>%s</title>\n%s", width, height, report.Escape(p.title), chartStyle)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", report.Escape(p.title))
	for i, panel := range p.panels {
		if p.units {
			low, high = scale(panel)
		}
		left := nameWidth + float64(i)*(panelWidth+panelGap)
		x := func(v float64) float64 {
			return left + (panelWidth-valueWidth)*(min(max(v, low), high)-low)/(high-low)
		}
		zero := x(0)
		fmt.Fprintf(&b, `<text class="panel" x="%.0f" y="%.0f">%s</text>`+"\n", left, chartTop-14, report.Escape(panel.title))
		fmt.Fprintf(&b, `<line class="axis" x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f"/>`+"\n", zero, chartTop-4, zero, height-chartBottom)
		for j, bar := range panel.bars {
			class, top := "", chartTop+rowHeight*float64(j)
			if bar.ours {
				class = " ours"
			}
			if i == 0 {
				fmt.Fprintf(&b, `<text class="%s" x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", strings.TrimSpace(class), left-8, top+barHeight-1, report.Escape(bar.name))
			}
			if bar.label == "–" {
				fmt.Fprintf(&b, `<text x="%.1f" y="%.0f">–</text>`+"\n", zero+6, top+barHeight-1)
				continue
			}
			end := x(bar.value)
			fmt.Fprintf(&b, `<rect class="bar%s" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`, class, min(zero, end), top, max(1, end-zero, zero-end), barHeight)
			fmt.Fprintf(&b, `<line class="beyond%s" x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f"/>`, class, zero, top+barHeight/2, x(bar.beyond), top+barHeight/2)
			fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%.0f">%s</text>`+"\n", strings.TrimSpace(class), max(zero, end, x(bar.beyond))+6, top+barHeight-1, report.Escape(bar.label))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
