// The tables of this program.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// report returns all tables in Markdown: the goals, the figures of all peers, and
// the lateness of the probes.
func (r *results) report() string {
	return r.goals() + "\n" + r.figures(rows, r.peerNames()) + r.probes()
}

// pageRows are the figures that the page shows. The program prints all of them.
var pageRows = []string{
	"hot-0", "hot-1m", "hot-10m", "par-1m", "replace", "reset", "fire", "fire-p99", "fire-early", "rearm", "spread", "bytes", "gc", "idle",
	"after", "after-allocs", "after-channels", "context", "context-bytes", "context-done", "context-done-bytes",
	"context-child", "context-child-bytes",
}

// page returns the tables of the page: some figures of the engines that people use, and the goals that
// are missed. A chart shows the probes.
func (r *results) page() string {
	var shown []row
	for _, id := range pageRows {
		w, err := rowNamed(id)
		must(err)
		shown = append(shown, w)
	}
	names := slices.DeleteFunc(r.peerNames(), func(p string) bool { return p == "wheel-go" || p == "floor" || p == "harness" })
	return r.figures(shown, names) + "\n" + r.missed()
}

// missed returns the goals that are missed, with their bounds.
func (r *results) missed() string {
	t := bench.Table{{"work", "ours", "missed"}}
	met := 0
	for _, w := range r.measured() {
		switch l := r.line(w); {
		case l.missed > 0:
			t = append(t, []string{w.Name, strings.Trim(l.figure, "*"), strings.Join(l.misses, "; ")})
		case l.bounds > 0:
			met++
		}
	}
	return fmt.Sprintf("Figures that meet all of their goals: %d. The others:\n\n%s", met, t)
}

// goals returns the table of our figures with their goals. A bold figure or ratio
// misses its bound.
func (r *results) goals() string {
	var b strings.Builder
	b.WriteString("| work | ours | goal | ÷ time.AfterFunc | ÷ best Go peer | ÷ Netty | met |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---|\n")
	for _, w := range r.measured() {
		l := r.line(w)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", w.Name, l.figure, l.goal, l.std, l.goPeer, l.netty, l.verdict())
	}
	return b.String()
}

// measured returns the rows whose own figure was measured.
func (r *results) measured() []row {
	var out []row
	for _, w := range rows {
		own, _ := w.subjects()
		if _, ok := r.figure(w, own); ok {
			out = append(out, w)
		}
	}
	return out
}

// goalLine holds the cells of a row of the table of goals, and counts its bounds.
type goalLine struct {
	figure, goal, std, goPeer, netty string
	bounds, missed, unknown          int
	misses                           []string // the bounds that are missed
}

func (r *results) line(w row) goalLine {
	own, _ := w.subjects()
	figure, _ := r.figure(w, own)
	l := goalLine{figure: number(figure) + unit(w)}
	if bound, ok := r.bound(w); ok {
		l.goal = "≤ " + number(bound)
		l.check(figure <= bound+w.noise)
		if figure > bound+w.noise {
			l.figure = bold(l.figure)
			l.misses = append(l.misses, "≤ "+number(bound))
		}
	} else if w.goal.aboveRow != "" {
		l.unknown++
	}
	l.std = l.ratioTo(r, w, "std", w.goal.std)
	l.netty = l.ratioTo(r, w, netty, w.goal.netty)
	best, ok := r.bestPeer(w)
	if !ok && w.goal.goPeer > 0 {
		l.unknown++
	}
	if ok {
		l.goPeer = l.ratioTo(r, w, best, w.goal.goPeer)
		if l.goPeer != "" {
			l.goPeer += " " + best
		}
	}
	return l
}

// bound returns the upper bound of the figure of a row.
func (r *results) bound(w row) (float64, bool) {
	if w.goal.aboveRow == "" {
		return w.goal.figure, w.goal.figure > 0 || w.goal.zero
	}
	base, err := rowNamed(w.goal.aboveRow)
	must(err)
	own, _ := w.subjects()
	figure, ok := r.figure(base, own)
	return figure + w.goal.above, ok
}

// ratioTo returns the ratio to a peer with its bound, and checks the bound.
func (l *goalLine) ratioTo(r *results, w row, peer string, bound float64) string {
	own, _ := w.subjects()
	ratio, ok := r.ratio(w, own, peer)
	switch {
	case !ok && bound > 0:
		l.unknown++
		return ""
	case !ok:
		return ""
	case bound == 0:
		return fmt.Sprintf("%.2f", ratio)
	}
	met := round2(ratio) <= bound
	l.check(met)
	text := fmt.Sprintf("%.2f", ratio)
	if !met {
		text = bold(text)
		l.misses = append(l.misses, fmt.Sprintf("%.2f of %s, ≤ %.2f", ratio, titleOf(peer), bound))
	}
	return fmt.Sprintf("%s (≤ %.2f)", text, bound)
}

func (l *goalLine) check(met bool) {
	l.bounds++
	if !met {
		l.missed++
	}
}

func (l *goalLine) verdict() string {
	switch {
	case l.missed > 0:
		return "**no**"
	case l.unknown > 0 && l.bounds > 0:
		return "as far as measured"
	case l.unknown > 0:
		return "not measured"
	case l.bounds == 0:
		return ""
	}
	return "yes"
}

// figures returns a table of the figures of peers, without the probes.
func (r *results) figures(rows []row, names []string) string {
	var b strings.Builder
	b.WriteString("| work |")
	for _, p := range names {
		fmt.Fprintf(&b, " %s |", titleOf(p))
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(names)) + "\n")
	for _, w := range rows {
		if w.sample.Work == "probe" || w.own == "heap" {
			continue // in the table of probes; in the row of the wheel
		}
		cells := ""
		found := false
		for _, p := range names {
			v, ok := r.figure(w, p)
			found = found || ok
			if !ok {
				cells += " |"
				continue
			}
			cells += " " + number(v) + " |"
		}
		if found {
			fmt.Fprintf(&b, "| %s%s |%s\n", w.Name, inUnit(w), cells)
		}
	}
	return b.String()
}

// probes returns the table of the lateness of the probes, or "" if there is none.
func (r *results) probes() string {
	var b strings.Builder
	for _, p := range r.peerNames() {
		cells := ""
		found := false
		for _, l := range probeLoads {
			cell := r.probeCell(l, p)
			found = found || cell != ""
			cells += " " + cell + " |"
		}
		if found {
			fmt.Fprintf(&b, "| %s |%s\n", titleOf(p), cells)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	head, rule := "\n| ms late: p50 / p99 / p99.99 / worst |", "|---|"
	for _, l := range probeLoads {
		head += " " + l.name + " |"
		rule += "---:|"
	}
	return head + "\n" + rule + "\n" + b.String()
}

func (r *results) probeCell(l probeLoad, peer string) string {
	var parts []string
	w := row{sample: l.spec()}
	for _, w.key = range []string{"p50", "p99", "p99.99", "max"} {
		if v, ok := r.figure(w, peer); ok {
			parts = append(parts, number(v))
		}
	}
	if w.key = "early"; len(parts) > 0 {
		if early, _ := r.figure(w, peer); early > 0 {
			parts[len(parts)-1] += fmt.Sprintf(" (%s %% early)", number(early))
		}
		return strings.Join(parts, " / ")
	}
	return r.failure(w, peer)
}

// peerNames returns the peers that have a sample, in the order of the tables.
func (r *results) peerNames() []string {
	var names []string
	for _, p := range order() {
		if r.hasPeer(p) {
			names = append(names, p)
		}
	}
	return names
}

func (r *results) hasPeer(peer string) bool {
	for _, s := range r.Samples {
		if s.Peer == peer {
			return true
		}
	}
	return false
}

func unit(w row) string {
	if w.Unit == "" {
		return ""
	}
	return " " + w.Unit
}

func inUnit(w row) string {
	if w.Unit == "" {
		return ""
	}
	return ", " + w.Unit
}

func bold(s string) string { return "**" + s + "**" }

func round2(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }

// number formats x with about three digits.
func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 0.1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}
