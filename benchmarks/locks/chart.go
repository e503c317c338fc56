package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// svg returns a chart of the time to lock many locks as one against their number,
// both on scales of powers of ten. It has the colours of the page that it is in.
func (r *results) svg() string {
	const (
		left, right, top, bottom = 70.0, 520.0, 20.0, 300.0
		fewest, most             = 0.0, 4.0  // powers of ten: members
		least, longest           = -2.0, 5.0 // ms
	)
	x := func(members int) float64 {
		return left + (right-left)*(math.Log10(float64(members))-fewest)/(most-fewest)
	}
	y := func(ms float64) float64 {
		return bottom - (bottom-top)*(min(max(math.Log10(ms), least), longest)-least)/(longest-least)
	}
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 345" font-family="sans-serif" font-size="13" role="img">` + "\n")
	b.WriteString("<title>Time to lock and unlock many locks as one</title>\n")
	b.WriteString(`<style>text{fill:#24292f}.n{fill:#57606a}.g{stroke:#d0d7de}.l{fill:none;stroke-width:2}.c0{stroke:#0969da}.c1{stroke:#8250df}.c2{stroke:#c2410c}.c3{stroke:#1a7f37}` +
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#8b949e}.g{stroke:#30363d}.c0{stroke:#58a6ff}.c1{stroke:#bc8cff}.c2{stroke:#f0883e}.c3{stroke:#3fb950}}</style>` + "\n")
	for p := least; p <= longest; p++ {
		at := y(math.Pow(10, p))
		fmt.Fprintf(&b, `<line class="g" x1="%v" y1="%.1f" x2="%v" y2="%.1f"/>`, left, at, right, at)
		fmt.Fprintf(&b, `<text class="n" x="%v" y="%.1f" text-anchor="end">%v ms</text>`+"\n", left-6, at+4, math.Pow(10, p))
	}
	for _, n := range memberCounts {
		fmt.Fprintf(&b, `<text class="n" x="%.1f" y="%v" text-anchor="middle">%d</text>`, x(n), bottom+18, n)
	}
	fmt.Fprintf(&b, `<text class="n" x="%v" y="%v" text-anchor="middle">members</text>`+"\n", (left+right)/2, bottom+36)
	for i, name := range r.batchNames() {
		var points []string
		for _, n := range memberCounts {
			if ms, measured := r.Batches[name][n]; measured && ms > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), y(ms)))
			}
		}
		height := top + 20 + 22*float64(i)
		fmt.Fprintf(&b, `<polyline class="l c%d" points="%s"/>`, i, strings.Join(points, " "))
		fmt.Fprintf(&b, `<line class="l c%d" x1="%v" y1="%v" x2="%v" y2="%v"/>`, i, right+12, height-4, right+32, height-4)
		fmt.Fprintf(&b, `<text x="%v" y="%v">%s</text>`+"\n", right+38, height, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
