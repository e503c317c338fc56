// Tables in Markdown, and goals.

package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

// Table is a table in Markdown.
type Table = report.Table

// Number formats x with about three digits.
func Number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// Cell returns figures of one sample, separated by " / ". It leaves out those that were not measured.
func (r *Results) Cell(work, candidate string, keys ...string) string {
	var parts []string
	for _, key := range keys {
		if v, ok := r.Figure(work, candidate, key); ok {
			parts = append(parts, Number(v))
		}
	}
	return strings.Join(parts, " / ")
}

// Goal is a bound of a figure of ours, or of its ratio to another one.
type Goal struct {
	Name string

	// Of is the figure. A star in the candidate stands for each of ours, and so does an empty one.
	Of Ref

	// Per is the figure by which Of is divided, if any field is set. Empty fields are those of Of.
	Per Ref

	Bound float64
	Least bool // Bound is a lower bound
	Unit  string
	Noise float64 // a difference between figures that means nothing
}

// value returns the figure of one of ours.
func (g Goal) value(r *Results, ours string) (float64, bool) {
	named := func(f Ref) Ref {
		if f.Candidate == "" {
			f.Candidate = "*"
		}
		f.Candidate = strings.ReplaceAll(f.Candidate, "*", ours)
		return f
	}
	of, per := named(g.Of), g.Per
	if per == (Ref{}) {
		return r.Figure(of.Work, of.Candidate, of.Key)
	}
	if per.Work == "" {
		per.Work = of.Work
	}
	if per.Candidate == "" {
		per.Candidate = g.Of.Candidate
	}
	if per.Key == "" {
		per.Key = of.Key
	}
	return r.Ratio(of, named(per), g.Noise)
}

// wanted returns the bound as text.
func (g Goal) wanted() string {
	sign := "≤ "
	if g.Least {
		sign = "≥ "
	}
	return sign + Number(g.Bound) + g.Unit
}

// met reports whether a figure is within the bound, or a ratio as it is shown, with two digits.
func (g Goal) met(v float64) bool {
	slack := g.Noise
	if g.Per != (Ref{}) {
		slack = 0.005
	}
	if g.Least {
		return v >= g.Bound-slack
	}
	return v <= g.Bound+slack
}

// Goals returns how many goals are met, and a table of the others with a column for each of ours. Goals whose figures
// were not measured do not count.
func (r *Results) Goals(goals []Goal, ours ...string) string {
	missed, count := Table{append([]string{"goal", "wanted"}, ours...)}, 0
	for _, g := range goals {
		cells, measured, met := []string{g.Name, g.wanted()}, false, true
		for _, name := range ours {
			v, ok := g.value(r, name)
			if !ok {
				cells = append(cells, "")
				continue
			}
			mark := " ✓"
			if !g.met(v) {
				mark, met = " ✗", false
			}
			measured = true
			cells = append(cells, Number(v)+g.Unit+mark)
		}
		if measured {
			count++
		}
		if !met {
			missed = append(missed, cells)
		}
	}
	switch misses := len(missed) - 1; {
	case count == 0:
		return ""
	case misses == 0:
		return fmt.Sprintf("All %d goals are met.\n", count)
	default:
		return fmt.Sprintf("%d of %d goals are met. Missed:\n\n%s", count-misses, count, missed)
	}
}
