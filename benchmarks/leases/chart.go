// The chart of the CPU time of a renewal.

package main

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// svg returns a chart of the CPU time of a renewal. Each candidate on a single server
// has a bar: the time of the server, followed by the time of the client. The colours
// are readable on light and on dark pages.
func (r *results) svg() string {
	const (
		left, right, top = 130, 620, 44 // of the bars
		step, height     = 30, 18
	)
	var names []string
	longest := 0.0
	for _, c := range candidates() {
		if f, measured := r.Figures[c.name]; measured {
			names = append(names, c.name)
			longest = max(longest, f.RedisCPU+f.ClientCPU)
		}
	}
	scale := (right - left) / max(longest, 1)
	var b strings.Builder
	bottom := top + step*len(names)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %d" font-family="sans-serif" font-size="13" role="img">`+"\n", bottom+10)
	fmt.Fprintf(&b, "<title>CPU time of one renewal, %d locks held</title>\n", r.Leases)
	b.WriteString(`<style>text{fill:#24292f}.n{fill:#57606a}.r{fill:#c2410c}.c{fill:#0969da}` +
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#8b949e}.r{fill:#f0883e}.c{fill:#58a6ff}}</style>` + "\n")
	fmt.Fprintf(&b, `<rect class="r" x="%d" y="14" width="12" height="12"/><text x="%d" y="25">redis-server</text>`, left, left+18)
	fmt.Fprintf(&b, `<rect class="c" x="%d" y="14" width="12" height="12"/><text x="%d" y="25">client</text>`, left+120, left+138)
	fmt.Fprintf(&b, `<text class="n" x="%d" y="25">µs of CPU per renewal, %d locks held</text>`+"\n", left+210, r.Leases)
	for i, name := range names {
		f := r.Figures[name]
		y := top + step*i
		redisWidth := f.RedisCPU * scale
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left-10, y+14, bench.Escape(name))
		fmt.Fprintf(&b, `<rect class="r" x="%d" y="%d" width="%.1f" height="%d"/>`, left, y, redisWidth, height)
		fmt.Fprintf(&b, `<rect class="c" x="%.1f" y="%d" width="%.1f" height="%d"/>`, left+redisWidth, y, f.ClientCPU*scale, height)
		fmt.Fprintf(&b, `<text class="n" x="%.1f" y="%d">%.1f + %.1f</text>`+"\n", left+redisWidth+f.ClientCPU*scale+8, y+14, f.RedisCPU, f.ClientCPU)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
