// This file is about the picture of the main question.

package main

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// panel is a part of the picture: bars of the clients for one fault.
type panel struct {
	title string
	bars  []bar
}

type bar struct {
	name          string
	ours          bool
	median, worst float64
}

// The sizes of the picture in pixels.
const (
	nameWidth   = 200.0
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
.median { fill: #868e96 }
.worst { stroke: #868e96; stroke-width: 2 }
.ours { fill: #0b7285 }
.worst.ours { stroke: #0b7285 }
text.ours { font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .axis { stroke: #495057 } .median { fill: #adb5bd } .worst { stroke: #adb5bd }
.ours { fill: #3bc9db } .worst.ours { stroke: #3bc9db }
}
</style>
`

// picture returns the picture of the clients that have rows of all its faults, or "".
func (r *results) picture() string {
	var panels []panel
	shown := []string{"cut", "stop-two", "fail-over"}
	for _, name := range shown {
		p := panel{title: faults()[faultOrder(name)].title}
		for _, c := range r.measured() {
			if c.hidden || slices.ContainsFunc(shown[:2], func(f string) bool { return len(r.of(c.name, f)) == 0 }) {
				continue
			}
			b := bar{name: c.name, ours: strings.HasPrefix(c.name, ours), median: -1}
			var all []float64
			for _, row := range r.of(c.name, name) {
				all = append(all, row.Overlap)
			}
			if len(all) > 0 {
				slices.Sort(all)
				b.median, b.worst = median(all), all[len(all)-1]
			}
			p.bars = append(p.bars, b)
		}
		panels = append(panels, p)
	}
	if len(panels[0].bars) == 0 {
		return ""
	}
	return draw(panels)
}

// draw draws panels side by side with one scale. The names stand left of the first.
func draw(panels []panel) string {
	most := 1.0
	for _, p := range panels {
		for _, b := range p.bars {
			most = max(most, b.worst)
		}
	}
	width := nameWidth + float64(len(panels))*(panelWidth+panelGap)
	height := chartTop + rowHeight*float64(len(panels[0].bars)) + chartBottom
	const title = "How long two clients believed to hold one lock: median, and a line to the worst, in ms"
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img">`+"\n<title>%s</title>\n%s", width, height, title, chartStyle)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", title)
	for i, p := range panels {
		left := nameWidth + float64(i)*(panelWidth+panelGap)
		x := func(v float64) float64 { return left + (panelWidth-valueWidth)*v/most }
		fmt.Fprintf(&b, `<text class="panel" x="%.0f" y="%.0f">%s</text>`+"\n", left, chartTop-14, escape(p.title))
		fmt.Fprintf(&b, `<line class="axis" x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/>`+"\n", left, chartTop-4, left, height-chartBottom)
		for j, bar := range p.bars {
			class, top := "", chartTop+rowHeight*float64(j)
			if bar.ours {
				class = " ours"
			}
			if i == 0 {
				fmt.Fprintf(&b, `<text class="%s" x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", strings.TrimSpace(class), left-8, top+barHeight-1, escape(bar.name))
			}
			if bar.median < 0 {
				fmt.Fprintf(&b, `<text x="%.1f" y="%.0f">–</text>`+"\n", left+6, top+barHeight-1)
				continue
			}
			fmt.Fprintf(&b, `<rect class="median%s" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`, class, left, top, max(1, x(bar.median)-left), barHeight)
			fmt.Fprintf(&b, `<line class="worst%s" x1="%.1f" y1="%.0f" x2="%.1f" y2="%.0f"/>`, class, left, top+barHeight/2, x(bar.worst), top+barHeight/2)
			fmt.Fprintf(&b, `<text class="%s" x="%.1f" y="%.0f">%s</text>`+"\n", strings.TrimSpace(class), x(bar.worst)+6, top+barHeight-1, escape(number(bar.median)))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
