// Line charts in SVG.

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

// LineChart draws series of points. The scale of the values is logarithmic.
type LineChart struct {
	Title  string
	Panels []Panel // side by side, with the same scale
	Unit   string  // of the values
	XLabel string
	X      []string // the labels of the points, at equal distances
	Low    float64  // the lowest value of the scale; a smaller value is drawn there
}

// Panel is one plot of a line chart.
type Panel struct {
	Title  string
	Series []Series
}

// Series is a line. A NaN is a point that was not measured.
type Series struct {
	Name   string
	Ours   bool // drawn in colour
	Values []float64
}

// The sizes of a line chart in pixels.
const (
	linePlotWidth  = 240.0
	linePlotHeight = 330.0
	lineAxisWidth  = 70.0  // left of a plot
	lineNameWidth  = 230.0 // right of a plot, for the names of the lines and their last values
	lineTop        = 60.0
	lineBottom     = 50.0
	lineNameStep   = 15.0 // the least distance of two names
	lineNameGap    = 30.0 // between a plot and the names
)

// lineStyle has colours that are readable on light and on dark pages.
const lineStyle = `<style>
text { font: 12px sans-serif; fill: #444 }
.title { font-size: 15px; font-weight: bold }
.panel { font-weight: bold }
.grid { stroke: #dee2e6 }
.lead { stroke: #adb5bd; stroke-dasharray: 2 2 }
.line { fill: none; stroke: #868e96; stroke-width: 1.5 }
.dot { fill: #868e96 }
.ours { stroke: #0b7285; stroke-width: 2.5 }
.dot.ours { fill: #0b7285; stroke: none }
text.ours { fill: #0b7285; stroke: none; font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .grid { stroke: #343a40 } .line { stroke: #adb5bd } .dot { fill: #adb5bd }
.ours { stroke: #3bc9db } .dot.ours { fill: #3bc9db } text.ours { fill: #3bc9db }
}
</style>
`

// SVG returns the chart, or "" if it has no point.
func (c LineChart) SVG() string {
	scale, ok := c.scale()
	if !ok {
		return ""
	}
	panelWidth := lineAxisWidth + linePlotWidth + lineNameWidth
	var b strings.Builder
	for i, p := range c.Panels {
		c.panel(&b, p, float64(i)*panelWidth+lineAxisWidth, scale)
	}
	return svg(int(panelWidth)*len(c.Panels), lineTop+linePlotHeight+lineBottom, c.Title, lineStyle, b.String())
}

// scale holds the lowest and the highest power of ten of a chart.
type scale struct{ low, high float64 }

// scale returns the powers of ten between which all values lie.
func (c LineChart) scale() (s scale, ok bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range c.Panels {
		for _, series := range p.Series {
			for _, v := range series.Values {
				if !math.IsNaN(v) {
					v = c.log(v)
					low, high, ok = min(low, v), max(high, v), true
				}
			}
		}
	}
	low = math.Floor(low)
	return scale{low, max(math.Ceil(high), low+1)}, ok
}

func (c LineChart) log(v float64) float64 { return math.Log10(max(v, c.Low)) }

func (c LineChart) panel(b *strings.Builder, p Panel, left float64, s scale) {
	x := func(i int) float64 { return left + linePlotWidth*float64(i)/float64(max(1, len(c.X)-1)) }
	y := func(v float64) float64 {
		return lineTop + linePlotHeight*(s.high-c.log(v))/(s.high-s.low)
	}
	fmt.Fprintf(b, `<text class="panel" x="%.1f" y="%.1f">%s</text>`+"\n", left, lineTop-16, report.Escape(p.Title))
	for power := s.low; power <= s.high; power++ {
		at := lineTop + linePlotHeight*(s.high-power)/(s.high-s.low)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, left, at, left+linePlotWidth, at)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end">%v %s</text>`+"\n", left-6, at+4, math.Pow(10, power), report.Escape(c.Unit))
	}
	for i, label := range c.X {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x(i), lineTop+linePlotHeight+18, report.Escape(label))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", left+linePlotWidth/2, lineTop+linePlotHeight+36, report.Escape(c.XLabel))
	var names []lineName
	for _, series := range p.Series {
		if i, ok := series.draw(b, x, y); ok {
			names = append(names, lineName{series, series.Values[i], x(i), y(series.Values[i])})
		}
	}
	drawNames(b, names, left+linePlotWidth+lineNameGap)
}

// draw draws the line of a series and returns the index of its last point.
func (s Series) draw(b *strings.Builder, x func(int) float64, y func(float64) float64) (last int, ok bool) {
	var points []string
	for i, v := range s.Values {
		if math.IsNaN(v) {
			continue
		}
		last, ok = i, true
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
		fmt.Fprintf(b, `<circle class="dot%s" cx="%.1f" cy="%.1f" r="3"/>`, s.class(), x(i), y(v))
	}
	if len(points) > 1 {
		fmt.Fprintf(b, `<polyline class="line%s" points="%s"/>`+"\n", s.class(), strings.Join(points, " "))
	}
	return last, ok
}

func (s Series) class() string {
	if s.Ours {
		return " ours"
	}
	return ""
}

// lineName is the name of a line, with its last value and where that is.
type lineName struct {
	Series
	value, x, at float64
}

// drawNames writes the names and the last values beside the ends of the lines. A name that would
// overlap the one above it moves down. A dotted line leads from each end to its name.
func drawNames(b *strings.Builder, names []lineName, left float64) {
	slices.SortStableFunc(names, func(a, b lineName) int { return int(math.Copysign(1, a.at-b.at)) })
	room := lineTop + linePlotHeight - lineNameStep*float64(len(names)-1)
	next := math.Inf(-1)
	for i, n := range names {
		at := max(next, min(n.at, room+lineNameStep*float64(i)))
		next = at + lineNameStep
		fmt.Fprintf(b, `<line class="lead" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, n.x+4, n.at, left-3, at)
		fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", strings.TrimSpace(n.class()), left, at+4,
			report.Escape(n.Name+" "+twoDigits(n.value)))
	}
}

// twoDigits returns a value with two digits that count, and all digits before the point.
func twoDigits(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2g", v)
}
