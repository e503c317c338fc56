// The tables.

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
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
			[]string{"hang-two", "cut", "stop-two", "fail-over", "restart"},
			"Milliseconds: the median, and the worst after the slash. A process that stands still does not count.",
			of(overlapOf),
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
			"Rounds in which nobody else got it, of all rounds.",
			kept,
		},
		{
			"Could an old holder write after a newer one?",
			[]string{"cut", "stop-two", "fail-over"},
			"Rounds with such a write, of all rounds; after the comma those in which a resource that compares tokens accepts it. The holder looks at its lock, works for 5 ms, and writes.",
			staleRounds,
		},
		{
			"For how long was the lock free while somebody waited?",
			[]string{"acquire-lost", "release-lost", "kill"},
			"Milliseconds: the median, and the worst after the slash. After a crash it cannot be less than what is left of the lease.",
			of(func(r row) float64 { return r.Free }),
		},
	}
}

func overlapOf(r row) float64 { return r.Overlap }

// of returns the cell of a figure.
func of(figure func(r row) float64) func(rows []row) string {
	return func(rows []row) string {
		text := medianAndWorst(sorted(rows, figure))
		if n := count(rows, func(r row) bool { return r.Unserved }); n > 0 {
			text += fmt.Sprintf("; %d not served", n)
		}
		return text
	}
}

// sorted returns a figure of all rows, in order.
func sorted(rows []row, figure func(r row) float64) (all []float64) {
	for _, r := range rows {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return all
}

func medianAndWorst(sorted []float64) string {
	middle, worst := number(median(sorted)), number(sorted[len(sorted)-1])
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
		slices.Sort(all)
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

func count(rows []row, f func(r row) bool) (n int) {
	for _, r := range rows {
		if f(r) {
			n++
		}
	}
	return n
}

func kept(rows []row) string {
	return fmt.Sprintf("%d/%d", count(rows, func(r row) bool { return r.Kept }), len(rows))
}

func staleRounds(rows []row) string {
	without := count(rows, func(r row) bool { return r.Stale > 0 })
	if without == 0 {
		return "0"
	}
	return fmt.Sprintf("%d/%d, %d", without, len(rows), count(rows, func(r row) bool { return r.StaleFenced > 0 }))
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
func (r *results) answer(q question) report.Table {
	header := []string{"client"}
	for _, name := range q.faults {
		header = append(header, faults()[faultOrder(name)].title)
	}
	t := report.Table{header}
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

// costs returns the table of 64 waiters.
func (r *results) costs() report.Table {
	t := report.Table{{"client", "hand-overs/s", "requests each", "Jain's index"}}
	for _, c := range r.measured() {
		rows := r.of(c.name, "waiters")
		if len(rows) == 0 {
			continue
		}
		middle := func(format string, figure func(r row) float64) string {
			return fmt.Sprintf(format, median(sorted(rows, figure)))
		}
		t = append(t, []string{
			c.name,
			middle("%.0f", func(r row) float64 { return float64(r.HandOvers) / waitingTime.Seconds() }),
			middle("%.1f", func(r row) float64 { return r.PerHandOver }),
			middle("%.2f", func(r row) float64 { return r.Jain }),
		})
	}
	return t
}

// versions returns the table of clients.
func (r *results) versions() report.Table {
	t := report.Table{{"client", "versions", "rounds", "how it is used"}}
	for _, c := range r.measured() {
		i := slices.IndexFunc(r.Rows, func(row row) bool { return row.Client == c.name && row.Version != "" })
		rounds := len(r.of(c.name, "stop-two"))
		t = append(t, []string{c.name, r.Rows[max(i, 0)].Version, fmt.Sprint(rounds), cmp.Or(c.note, "–")})
	}
	return t
}

// report returns all tables.
func (r *results) report() string {
	var b strings.Builder
	for i, q := range questions() {
		t := r.answer(q)
		if len(t) == 1 {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n", q.title, q.explain)
		if i == 0 {
			fmt.Fprintf(&b, "![%s](img/%s)\n\n", pictureTitle, pictureFile)
		}
		fmt.Fprintf(&b, "%s\n", t)
	}
	if t := r.costs(); len(t) > 1 {
		fmt.Fprintf(&b, "### What does a wait cost?\n\n%d clients in one process take turns for %v and hold the lock for %v.\n\n%s\n", waiting, waitingTime, contendHold, t)
	}
	fmt.Fprintf(&b, "### What was compared\n\nOn %s, rounds side by side. The load averages at the end were %s.\n\n%s", r.Machine, r.Load, r.versions())
	return b.String()
}

// document replaces the figures of the page, and the picture.
func (r *results) document(folder string) error {
	if err := report.Replace(filepath.Join(folder, "COMPARISON.md"), "figures", r.report()+"\n"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "img", pictureFile), []byte(r.picture()), 0o644)
}
