// The picture of the overlaps.

package main

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

const (
	pictureFile  = "comparison.svg"
	pictureTitle = "How long two clients believed to hold one lock: median, and a line to the worst, in ms"
)

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
rect { fill: #868e96 }
line { stroke: #868e96; stroke-width: 2 }
.ours rect { fill: #0b7285 }
.ours line { stroke: #0b7285 }
.ours text { fill: #0b7285; font-weight: bold }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } rect { fill: #adb5bd } line { stroke: #adb5bd }
.ours rect { fill: #3bc9db } .ours line { stroke: #3bc9db } .ours text { fill: #3bc9db }
}
</style>
`

// picture draws a row for each client and a panel for each of three faults.
func (r *results) picture() string {
	clients, panels, longest := r.measured(), []string{"cut", "stop-two", "fail-over"}, 1.0
	for _, row := range r.Rows {
		longest = max(longest, row.Overlap)
	}
	left := func(panel int) float64 { return nameWidth + float64(panel)*(panelWidth+panelGap) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img">`+"\n<title>%s</title>\n%s",
		left(len(panels)), chartTop+rowHeight*float64(len(clients))+chartBottom, pictureTitle, chartStyle)
	fmt.Fprintf(&b, `<text class="title" x="8" y="22">%s</text>`+"\n", pictureTitle)
	for i, name := range panels {
		fmt.Fprintf(&b, `<text class="panel" x="%.0f" y="%.0f">%s</text>`+"\n", left(i), chartTop-14, faults()[faultOrder(name)].title)
	}
	for j, c := range clients {
		class, top := "other", chartTop+rowHeight*float64(j)
		if strings.HasPrefix(c.name, ours) {
			class = "ours"
		}
		fmt.Fprintf(&b, `<g class="%s"><text x="%.0f" y="%.0f" text-anchor="end">%s</text>`+"\n", class, nameWidth-8, top+barHeight-1, report.Escape(c.name))
		for i, name := range panels {
			label, middle, worst := "–", 0.0, 0.0
			if all := sorted(r.of(c.name, name), overlapOf); len(all) > 0 {
				middle, worst = median(all), all[len(all)-1]
				label = report.Escape(number(middle))
				width := max(1, length(middle, longest))
				fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="%.1f" height="%.0f"/>`, left(i), top, width, barHeight)
				fmt.Fprintf(&b, `<line x1="%.0f" y1="%.0f" x2="%.1f" y2="%[2]v"/>`, left(i), top+barHeight/2, left(i)+length(worst, longest))
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%.0f">%s</text>`+"\n", left(i)+length(worst, longest)+6, top+barHeight-1, label)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func length(v, longest float64) float64 { return (panelWidth - valueWidth) * v / longest }
