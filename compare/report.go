// This file is about the tables.

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// question is a table of the page: a row for each client, and a column for each fault.
type question struct {
	title   string
	faults  []string // of the columns
	explain string
	cell    func(rows []row) string
}

func questions() []question {
	return []question{
		{
			"For how long did two believe to hold the lock?",
			[]string{"hang-two", "cut", "stop-two", "late-release", "fail-over", "restart"},
			"Milliseconds: the median, and the worst after the slash. A process that stands still does not count.",
			of(func(r row) (float64, bool) { return r.Overlap, true }),
		},
		{
			"When was the old holder told?",
			[]string{"hang-two", "cut", "stop-two", "fail-over"},
			"Milliseconds after the end of its lease, or after the fail-over; before is negative. The time in which the holder stands still does not count.",
			told,
		},
		{
			"Did the holder keep the lock through a short fault?",
			[]string{"renewal-lost", "hang-half", "stop-half"},
			"Rounds in which nobody else got it, of all rounds.", kept,
		},
		{
			"Could an old holder write after a newer one?",
			[]string{"cut", "stop-two", "fail-over"},
			"Rounds with such a write, of all rounds; after the comma those in which a resource that compares tokens accepts it. The holder looks at its lock, works for 5 ms, and writes.",
			staleRounds,
		},
		{
			"For how long was the lock free while somebody waited?",
			[]string{"acquire-lost", "release-lost", "kill-1", "cancel", "cancel-release"},
			"Milliseconds: the median, and the worst after the slash. After a crash it cannot be less than what is left of the lease.",
			of(func(r row) (float64, bool) { return r.Free, true }),
		},
	}
}

// of returns the cell of a figure.
func of(figure func(r row) (value float64, ok bool)) func(rows []row) string {
	return func(rows []row) string {
		var all []float64
		unserved, robbed := 0, 0
		for _, r := range rows {
			if r.Unserved {
				unserved++
			}
			if r.Robbed {
				robbed++
			}
			if v, ok := figure(r); ok {
				all = append(all, v)
			}
		}
		text := medianAndWorst(all)
		if unserved > 0 {
			text += fmt.Sprintf("; %d not served", unserved)
		}
		if robbed > 0 {
			text += fmt.Sprintf("; %d robbed", robbed)
		}
		return text
	}
}

func medianAndWorst(all []float64) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	middle, worst := number(median(all)), number(all[len(all)-1])
	if middle == worst {
		return middle
	}
	return middle + " / " + worst
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// number rounds to whole milliseconds. What is below one is 0, except that it is not nothing.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v > 0 && v < 1:
		return "<1"
	}
	return strings.Replace(fmt.Sprintf("%.0f", v), "-", "−", 1)
}

func told(rows []row) string {
	var all []float64
	silent, kept := 0, 0
	for _, r := range rows {
		switch {
		case r.Told != nil:
			all = append(all, *r.Told)
		case r.Never:
			silent++
		case r.Kept:
			kept++
		}
	}
	var parts []string
	if len(all) > 0 {
		parts = append(parts, medianAndWorst(all))
	}
	if silent > 0 {
		parts = append(parts, fmt.Sprintf("**never** %d/%d", silent, len(rows)))
	}
	if len(parts) == 0 && kept > 0 {
		return "kept it"
	}
	return cmp.Or(strings.Join(parts, "; "), "–")
}

func kept(rows []row) string {
	n := 0
	for _, r := range rows {
		if r.Kept {
			n++
		}
	}
	return fmt.Sprintf("%d/%d", n, len(rows))
}

func staleRounds(rows []row) string {
	without, with := 0, 0
	for _, r := range rows {
		if r.Stale > 0 {
			without++
		}
		if r.StaleFenced > 0 {
			with++
		}
	}
	if without == 0 {
		return "0"
	}
	return fmt.Sprintf("%d/%d, %d", without, len(rows), with)
}

// table is a list of rows of cells. The first row is the header.
type table [][]string

// String returns the table in Markdown.
func (t table) String() string {
	widths := make([]int, len(t[0]))
	for _, cells := range t {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, w := range widths {
		rule[i] = strings.Repeat("-", w)
	}
	var b strings.Builder
	for _, cells := range slices.Insert(slices.Clone(t), 1, rule) {
		for i, cell := range cells {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// measured returns the clients that have rows, in the order of the page.
func (r *results) measured() (all []*candidate) {
	for _, c := range candidates() {
		if slices.ContainsFunc(r.Rows, func(row row) bool { return row.Client == c.name }) {
			all = append(all, c)
		}
	}
	return all
}

// answer returns the table of a question.
func (r *results) answer(q question) table {
	header := []string{"client"}
	for _, name := range q.faults {
		header = append(header, faults()[faultOrder(name)].title)
	}
	t := table{header}
	for _, c := range r.measured() {
		cells := []string{c.name}
		some := false
		for _, name := range q.faults {
			cell := "–"
			if rows := r.of(c.name, name); len(rows) > 0 {
				cell, some = q.cell(rows), true
			}
			cells = append(cells, cell)
		}
		if some {
			t = append(t, cells)
		}
	}
	return t
}

// costs returns the table of 64 waiters, and of 20 whose holder is killed.
func (r *results) costs() table {
	t := table{{"client", "hand-overs/s", "requests each", "client CPU each", "Jain's index", "20 served after a kill", "keys left"}}
	for _, c := range r.measured() {
		waiters, crashed := r.of(c.name, "waiters"), r.of(c.name, "kill-20")
		if len(waiters) == 0 && len(crashed) == 0 {
			continue
		}
		middle := func(rows []row, figure func(r row) float64, format string) string {
			var all []float64
			for _, r := range rows {
				all = append(all, figure(r))
			}
			if len(all) == 0 {
				return "–"
			}
			slices.Sort(all)
			return fmt.Sprintf(format, median(all))
		}
		left := "–"
		if strings.Contains(c.store, redisServer) {
			left = middle(crashed, func(r row) float64 { return float64(r.Left) }, "%.0f")
		}
		t = append(t, []string{
			c.name,
			middle(waiters, func(r row) float64 { return float64(r.HandOvers) / waitingTime.Seconds() }, "%.0f"),
			middle(waiters, func(r row) float64 { return r.PerHandOver }, "%.1f"),
			middle(waiters, func(r row) float64 { return r.CPU }, "%.0f µs"),
			middle(waiters, func(r row) float64 { return r.Jain }, "%.2f"),
			middle(crashed, func(r row) float64 { return r.All / 1000 }, "%.1f s"),
			left,
		})
	}
	return t
}

// versions returns the table of clients.
func (r *results) versions() table {
	t := table{{"client", "versions", "rounds", "how it is used"}}
	for _, c := range r.measured() {
		version := ""
		rounds := map[string]int{}
		for _, row := range r.Rows {
			if row.Client == c.name {
				version = cmp.Or(version, row.Version)
				rounds[row.Fault]++
			}
		}
		most := 0
		for _, n := range rounds {
			most = max(most, n)
		}
		t = append(t, []string{c.name, version, fmt.Sprint(most), cmp.Or(c.note, "–")})
	}
	return t
}

// report returns all tables.
func (r *results) report() string {
	if len(r.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	for _, q := range questions() {
		if t := r.answer(q); len(t) > 1 {
			fmt.Fprintf(&b, "### %s\n\n%s\n\n%s\n", q.title, q.explain, t)
		}
	}
	if t := r.costs(); len(t) > 1 {
		fmt.Fprintf(&b, "### What does a wait cost?\n\n%d clients in one process take turns for %v and hold the lock for %v.\n\n%s\n", waiting, waitingTime, contendHold, t)
	}
	fmt.Fprintf(&b, "### What was compared\n\nOn %s, rounds side by side. The load averages at the end were %s.\n\n%s", r.Machine, r.Load, r.versions())
	return b.String()
}

// section is the name of the section of the page that document replaces.
const section = "figures"

// document replaces the figures of the page, and the picture.
func (r *results) document(folder string) error {
	path := filepath.Join(folder, "COMPARISON.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end of "+section+" -->"
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	if err := os.WriteFile(path, []byte(before+begin+"\n"+r.report()+"\n"+end+after), 0o644); err != nil {
		return err
	}
	if svg := r.picture(); svg != "" {
		return os.WriteFile(filepath.Join(folder, "img", "comparison.svg"), []byte(svg), 0o644)
	}
	return nil
}
