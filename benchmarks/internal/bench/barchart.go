// Bar charts in SVG.

package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

// BarChart draws groups of bars, one below the other. Each group has a scale of its own, because groups may differ in
// unit.
type BarChart struct {
	Title  string
	Log    bool // the scales are logarithmic
	Groups []BarGroup
}

// BarGroup is a group of bars with a title.
type BarGroup struct {
	Title string
	Bars  []Bar
}

// Bar is a bar. Its parts are drawn one after another.
type Bar struct {
	Name  string
	Ours  bool // of this module
	Early bool // of a peer that fires early
	Parts []float64
}

// Add adds the bar of a candidate, with a part for each of its figures that were measured.
func (g *BarGroup) Add(b Bar, r *Results, work, candidate string, keys ...string) {
	for _, key := range keys {
		if v, ok := r.Figure(work, candidate, key); ok {
			b.Parts = append(b.Parts, v)
		}
	}
	if len(b.Parts) > 0 {
		g.Bars = append(g.Bars, b)
	}
}

// The sizes of a bar chart in pixels.
const (
	barWidth      = 760
	barLabelWidth = 220
	barValueWidth = 110
	barHeight     = 15
	barStep       = 19
	barGroupGap   = 34
)

// barStyle has colours that are readable on light and on dark pages.
const barStyle = `<style>
text { font: 12px sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: bold }
.group { font-weight: bold }
.ours { fill: #0b7285 }
.other { fill: #adb5bd }
.early { fill: #e8590c }
.second { fill-opacity: 0.5 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .ours { fill: #3bc9db } .other { fill: #6c757d } }
</style>
`

// SVG returns the chart, or "" if it has no bar.
func (c BarChart) SVG() string {
	var b strings.Builder
	y := 30
	for _, g := range c.Groups {
		if len(g.Bars) > 0 {
			y = c.group(&b, g, y)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n"+
		`<title>%s</title>`+"\n%s"+`<text class="title" x="8" y="20">%[3]s</text>`+"\n%[5]s</svg>\n", barWidth, y+10, report.Escape(c.Title), barStyle, &b)
}

// group draws a group below y and returns where it ends.
func (c BarChart) group(b *strings.Builder, g BarGroup, y int) int {
	longest := 0.0
	for _, one := range g.Bars {
		longest = max(longest, one.sum())
	}
	y += barGroupGap
	fmt.Fprintf(b, `<text class="group" x="8" y="%d">%s</text>`+"\n", y-8, report.Escape(g.Title))
	for _, one := range g.Bars {
		length := c.length(one.sum(), longest) * (barWidth - barLabelWidth - barValueWidth)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, barLabelWidth-8, y+12, report.Escape(one.Name))
		x, class := float64(barLabelWidth), "other"
		switch {
		case one.Ours:
			class = "ours"
		case one.Early:
			class = "early"
		}
		var values []string
		for _, v := range one.Parts {
			width := max(1, length*v/max(one.sum(), 1e-9))
			fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, x, y, width, barHeight)
			x += width
			class += " second"
			values = append(values, Number(v))
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", x+6, y+12, strings.Join(values, " + "))
		y += barStep
	}
	return y
}

func (b Bar) sum() (sum float64) {
	for _, v := range b.Parts {
		sum += v
	}
	return sum
}

// length returns the length of a bar as a part of the longest.
func (c BarChart) length(v, longest float64) float64 {
	if !c.Log {
		return v / max(longest, 1e-9)
	}
	const shortest = 0.1
	return math.Log(max(v, shortest)/shortest) / math.Log(max(longest, 2*shortest)/shortest)
}
