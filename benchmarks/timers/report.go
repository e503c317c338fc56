package main

import (
	"fmt"
	"strings"
)

// report is the two tables in Markdown: the goals, and the figures of all.
func (r *results) report() string {
	var b strings.Builder
	b.WriteString(r.goals())
	b.WriteString("\n")
	b.WriteString(r.figures())
	return b.String()
}

// goals is the table of ours beside the others. A ratio has its bound behind it,
// and is bold where the bound is missed.
func (r *results) goals() string {
	var b strings.Builder
	b.WriteString("| work | ours | goal | ÷ time.AfterFunc | ÷ best Go peer | ÷ Netty | met |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---|\n")
	for _, w := range r.measured() {
		l := r.line(w)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", w.Name, l.figure, l.goal, l.std, l.rival, l.netty, l.verdict())
	}
	return b.String()
}

// measured are the rows whose own figure is there.
func (r *results) measured() []row {
	var out []row
	for _, w := range rows {
		subject, _ := w.who()
		if _, ok := r.figure(w, subject); ok {
			out = append(out, w)
		}
	}
	return out
}

// judged is a row of the table of goals.
type judged struct {
	figure, goal, std, rival, netty string
	asked, missed, unknown          int
}

func (r *results) line(w row) judged {
	subject, _ := w.who()
	own, _ := r.figure(w, subject)
	l := judged{figure: number(own) + unit(w)}
	if g := w.goal; g.figure > 0 || g.none {
		l.goal = "≤ " + number(g.figure)
		l.judge(own <= g.figure+w.noise)
		if own > g.figure+w.noise {
			l.figure = bold(l.figure)
		}
	}
	l.std = l.against(r, w, "std", w.goal.std)
	l.netty = l.against(r, w, netty, w.goal.netty)
	rival, ok := r.rival(w)
	if !ok && w.goal.rival > 0 {
		l.unknown++
	}
	if ok {
		l.rival = l.against(r, w, rival, w.goal.rival)
		if l.rival != "" {
			l.rival += " " + rival
		}
	}
	return l
}

// against shows the ratio to a peer beside its bound and judges it.
func (l *judged) against(r *results, w row, peer string, bound float64) string {
	subject, _ := w.who()
	ratio, ok := r.ratio(w, subject, peer)
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
	l.judge(met)
	text := fmt.Sprintf("%.2f", ratio)
	if !met {
		text = bold(text)
	}
	return fmt.Sprintf("%s (≤ %.2f)", text, bound)
}

func (l *judged) judge(met bool) {
	l.asked++
	if !met {
		l.missed++
	}
}

func (l *judged) verdict() string {
	switch {
	case l.missed > 0:
		return "**no**"
	case l.unknown > 0 && l.asked > 0:
		return "so far as measured"
	case l.unknown > 0:
		return "not measured"
	case l.asked == 0:
		return ""
	}
	return "yes"
}

// figures is the table of all peers.
func (r *results) figures() string {
	var names []string
	for _, p := range order() {
		if r.has(p) {
			names = append(names, p)
		}
	}
	var b strings.Builder
	b.WriteString("| work |")
	for _, p := range names {
		fmt.Fprintf(&b, " %s |", titleOf(p))
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(names)) + "\n")
	for _, w := range rows {
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

func (r *results) has(peer string) bool {
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

// number shows three digits, more or less.
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
