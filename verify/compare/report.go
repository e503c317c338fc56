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

// question is a table of the page: a row for each client, and a column for each fault. Some columns stand in
// its picture, too.
type question struct {
	title   string
	faults  []string // of the columns
	explain string
	cell    func(rows []row) string

	picture      string // the name of the file
	pictureTitle string
	shown        []string // faults
	bar          func(rows []row) bar
}

func questions() []question {
	overlap := func(r row) (float64, bool) { return r.Overlap, true }
	wasFree := func(r row) (float64, bool) { return r.Free, true }
	return []question{
		{
			"For how long did two believe to hold the lock?",
			[]string{"hang-two", "cut", "stop-two", "late-release", "fail-over", "restart"},
			"Milliseconds: the median, and the worst after the slash. A process that stands still does not count.",
			of(overlap),
			"comparison", "How long two clients believed to hold one lock: median, and a line to the worst, in ms",
			[]string{"cut", "stop-two", "fail-over"},
			spread(overlap),
		},
		{
			"When was the old holder told?",
			[]string{"hang-two", "cut", "stop-two", "fail-over"},
			"Milliseconds after the end of its lease, or after the fail-over; before is negative. The time in which the holder stands still does not count.",
			told,
			"compare-told", "When the old holder was told: ms before (left) and after the end of its lease",
			[]string{"hang-two", "cut", "fail-over"},
			toldBar,
		},
		{
			"Did the holder keep the lock through a short fault?",
			[]string{"renewal-lost", "hang-half", "stop-half"},
			"Rounds in which nobody else got it, of all rounds.", kept,
			"compare-kept", "Rounds in which the holder kept the lock",
			[]string{"renewal-lost", "hang-half", "stop-half"},
			keptBar,
		},
		{
			"Could an old holder write after a newer one?",
			[]string{"cut", "stop-two", "fail-over"},
			"Rounds with such a write, of all rounds; after the comma those in which a resource that compares tokens accepts it. The holder looks at its lock, works for 5 ms, and writes.",
			staleRounds,
			"compare-stale", "Rounds in which an old holder wrote after a newer one: the line; bar: if the resource compares tokens",
			[]string{"cut", "stop-two", "fail-over"},
			staleBar,
		},
		{
			"For how long was the lock free while somebody waited?",
			[]string{"acquire-lost", "release-lost", "kill-1", "cancel", "cancel-release"},
			"Milliseconds: the median, and the worst after the slash. After a crash it cannot be less than what is left of the lease.",
			of(wasFree),
			"compare-free", "How long the lock was free while somebody waited: median, and a line to the worst, in ms",
			[]string{"acquire-lost", "release-lost", "kill-1"},
			spread(wasFree),
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

// toldBar is a bar to the median, with the table's text if nobody was told.
func toldBar(rows []row) bar {
	b := spread(func(r row) (float64, bool) {
		if r.Told == nil {
			return 0, false
		}
		return *r.Told, true
	})(rows)
	if never := count(rows, func(r row) bool { return r.Never }); never > 0 {
		b.label = fmt.Sprintf("never %d/%d", never, len(rows))
	} else if b.label == "–" {
		b.label = told(rows)
	}
	return b
}

func count(rows []row, f func(r row) bool) (n int) {
	for _, r := range rows {
		if f(r) {
			n++
		}
	}
	return n
}

func wasKept(r row) bool { return r.Kept }

func kept(rows []row) string { return fmt.Sprintf("%d/%d", count(rows, wasKept), len(rows)) }

func keptBar(rows []row) bar {
	v := percent(count(rows, wasKept), len(rows))
	return bar{value: v, beyond: v, label: kept(rows)}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

func staleCounts(rows []row) (without, with int) {
	return count(rows, func(r row) bool { return r.Stale > 0 }), count(rows, func(r row) bool { return r.StaleFenced > 0 })
}

func staleBar(rows []row) bar {
	without, with := staleCounts(rows)
	return bar{value: percent(with, len(rows)), beyond: percent(without, len(rows)), label: staleRounds(rows)}
}

func staleRounds(rows []row) string {
	without, with := staleCounts(rows)
	if without == 0 {
		return "0"
	}
	return fmt.Sprintf("%d/%d, %d", without, len(rows), with)
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

// faultsPage says how each fault is played and measured.
const faultsPage = "../verify/compare/README.md#the-faults"

// answer returns the table of a question.
func (r *results) answer(q question) report.Table {
	header := []string{"client"}
	for _, name := range q.faults {
		header = append(header, fmt.Sprintf("[%s](%s)", faults()[faultOrder(name)].title, faultsPage))
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

// costFigure is a column of the table of costs.
type costFigure struct {
	title  string
	fault  string
	of     func(r row) float64
	format string
}

func costFigures() []costFigure {
	return []costFigure{
		{"hand-overs/s", "waiters", func(r row) float64 { return float64(r.HandOvers) / waitingTime.Seconds() }, "%.0f"},
		{"requests each", "waiters", func(r row) float64 { return r.PerHandOver }, "%.1f"},
		{"client CPU each", "waiters", func(r row) float64 { return r.CPU }, "%.0f µs"},
		{"Jain's index", "waiters", func(r row) float64 { return r.Jain }, "%.2f"},
		{"20 served after a kill", "kill-20", func(r row) float64 { return r.All / 1000 }, "%.1f s"},
		{"keys left", "kill-20", func(r row) float64 { return float64(r.Left) }, "%.0f"},
	}
}

// middle returns the median of a figure. There are rows.
func middle(rows []row, figure func(r row) float64) float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return median(all)
}

// costs returns the table of 64 waiters, and of 20 whose holder is killed.
func (r *results) costs() report.Table {
	header := []string{"client"}
	for _, f := range costFigures() {
		header = append(header, fmt.Sprintf("[%s](%s)", f.title, faultsPage))
	}
	t := report.Table{header}
	for _, c := range r.measured() {
		cells, some := []string{c.name}, false
		for _, f := range costFigures() {
			rows := r.of(c.name, f.fault)
			some = some || len(rows) > 0
			if len(rows) == 0 || f.title == "keys left" && !strings.Contains(c.store, redisServer) {
				cells = append(cells, "–")
				continue
			}
			cells = append(cells, fmt.Sprintf(f.format, middle(rows, f.of)))
		}
		if some {
			t = append(t, cells)
		}
	}
	return t
}

// versions returns the table of clients.
func (r *results) versions() report.Table {
	t := report.Table{{"client", "versions", "rounds", "how it is used"}}
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
	shown := map[string]string{}
	for _, p := range r.pictures() {
		shown[p.file] = fmt.Sprintf("![%s](img/%s.svg)\n\n", p.title, p.file)
	}
	var b strings.Builder
	for _, q := range questions() {
		t := r.answer(q)
		if len(t) == 1 {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n%s", q.title, q.explain, shown[q.picture])
		if !slices.Equal(q.shown, q.faults) { // otherwise the picture has each figure
			fmt.Fprintf(&b, "%s\n", t)
		}
	}
	if t := r.costs(); len(t) > 1 {
		fmt.Fprintf(&b, "### What does a wait cost?\n\n%d clients in one process take turns for %v and hold the lock for %v.\n\n%s%s\n", waiting, waitingTime, contendHold, shown[waitersPicture], t)
	}
	fmt.Fprintf(&b, "### What was compared\n\nOn %s, rounds side by side. The load averages at the end were %s.\n\n%s", r.Machine, r.Load, r.versions())
	return b.String()
}

// document replaces the figures of the page, and the pictures.
func (r *results) document(folder string) error {
	if err := report.Replace(filepath.Join(folder, "COMPARISON.md"), "figures", r.report()+"\n"); err != nil {
		return err
	}
	for _, p := range r.pictures() {
		if err := os.WriteFile(filepath.Join(folder, "img", p.file+".svg"), []byte(p.draw()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
