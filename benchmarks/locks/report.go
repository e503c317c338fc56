// The tables, the goals and the chart of this program.

package main

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

func sections() []bench.Section {
	return []bench.Section{{Page: bench.Page, Name: "locks", Report: report, Charts: func(r *bench.Results) map[string]bench.BarChart {
		return map[string]bench.BarChart{"batches": chart(r)}
	}}}
}

// report returns the tables in Markdown.
func report(r *bench.Results) string {
	var b strings.Builder
	terms := ""
	for _, part := range []struct {
		title, work string
		table       bench.Table
	}{
		{"Uncontended locks", fmt.Sprint(workUncontended, " ", goroutines[0]), table(r, workUncontended, "goroutines", goroutines,
			"pairs/s rate", "redis CPU, µs redis", "client CPU, µs client", "p50, µs p50", "p99, µs p99")},
		{"A contended lock, held for 2 ms", fmt.Sprint(workHandOver, " ", contenders[0]), table(r, workHandOver, "clients", contenders,
			"p50, µs p50", "p99, µs p99", "PING, µs ping", "commands commands", "Jain jain")},
		{"Many locks as one: ms to lock and unlock them", workBatches, batchTable(r)},
	} {
		if len(part.table) > 1 {
			run := r.RunOf(part.work)
			if now := fmt.Sprintf("Each measured for %s. %s, %v\n\n", run.Notes["window"], run.Note("Redis"), run); now != terms {
				terms = now
				b.WriteString(terms)
			}
			fmt.Fprintf(&b, "#### %s\n\n%s\n", part.title, part.table)
		}
	}
	if b.Len() > 0 {
		fmt.Fprintf(&b, "#### Goals\n\n%s", r.Goals(goals(), leasewheelCandidate.name))
	}
	return b.String()
}

// table returns a table with a line for each client and number. The last word of a column is the name of its figure.
func table(r *bench.Results, work, what string, numbers []int, columns ...string) bench.Table {
	t := bench.Table{{what, "client"}}
	for _, column := range columns {
		t[0] = append(t[0], column[:strings.LastIndexByte(column, ' ')])
	}
	for _, n := range numbers {
		for _, c := range candidates() {
			var cells []string
			for _, column := range columns {
				cells = append(cells, r.Cell(fmt.Sprint(work, " ", n), c.name, column[strings.LastIndexByte(column, ' ')+1:]))
			}
			t.Add([]string{fmt.Sprint(n), c.name}, cells...)
		}
	}
	return t
}

// batchNames returns the candidates in the order of the table.
func batchNames() (names []string) {
	for _, c := range batchCandidates() {
		names = append(names, c.name)
	}
	return names
}

func batchTable(r *bench.Results) bench.Table {
	names := batchNames()
	t := bench.Table{append([]string{"members"}, names...)}
	for _, n := range memberCounts {
		var cells []string
		for _, name := range names {
			cells = append(cells, r.Cell(workBatches, name, fmt.Sprint(n)))
		}
		t.Add([]string{fmt.Sprint(n)}, cells...)
	}
	return t
}

// goals returns the goals of this module.
func goals() []bench.Goal {
	alone, many := workUncontended+" 1", workUncontended+" 64"
	list := []bench.Goal{
		{Name: "64 goroutines, pairs/s ÷ rueidislock", Of: bench.Ref{Work: many, Key: "rate"}, Per: bench.Ref{Candidate: rueidisPeer.name}, Bound: 1, Least: true},
		{Name: "one goroutine, pairs/s ÷ redsync", Of: bench.Ref{Work: alone, Key: "rate"}, Per: bench.Ref{Candidate: redsyncPeer.name}, Bound: 1, Least: true},
		{Name: "one goroutine, client CPU ÷ redsync", Of: bench.Ref{Work: alone, Key: "client"}, Per: bench.Ref{Candidate: redsyncPeer.name}, Bound: 0.8},
		{Name: "one goroutine, client CPU ÷ redislock", Of: bench.Ref{Work: alone, Key: "client"}, Per: bench.Ref{Candidate: redislockPeer.name}, Bound: 1},
	}
	for _, n := range contenders {
		work, prefix := fmt.Sprint(workHandOver, " ", n), fmt.Sprintf("%d clients, ", n)
		list = append(list,
			bench.Goal{Name: prefix + "hand-over p50 ÷ PING", Of: bench.Ref{Work: work, Key: "p50"}, Per: bench.Ref{Key: "ping"}, Bound: 3.5},
			bench.Goal{Name: prefix + "hand-over p99 ÷ PING", Of: bench.Ref{Work: work, Key: "p99"}, Per: bench.Ref{Key: "ping"}, Bound: 8},
			bench.Goal{Name: prefix + "commands per hand-over", Of: bench.Ref{Work: work, Key: "commands"}, Bound: 2.01}, // the first and the last turn are cut
			bench.Goal{Name: prefix + "Jain's index", Of: bench.Ref{Work: work, Key: "jain"}, Bound: 0.99, Least: true})
	}
	return append(list,
		bench.Goal{Name: "64 clients, hand-over p50: rueidislock ÷ ours", Of: bench.Ref{Work: workHandOver + " 64", Candidate: rueidisPeer.name, Key: "p50"}, Per: bench.Ref{Candidate: "*"}, Bound: 10, Least: true},
		bench.Goal{Name: "1,000 members", Of: bench.Ref{Work: workBatches, Key: "1000"}, Bound: 5, Unit: " ms"})
}

// chart shows the time to lock many locks as one, by their number.
func chart(r *bench.Results) bench.BarChart {
	c := bench.BarChart{Title: "Time to lock and unlock many locks as one"}
	for _, n := range memberCounts {
		g := bench.BarGroup{Title: fmt.Sprint(n, " locks, ms")}
		for _, name := range batchNames() {
			g.Add(bench.Bar{Name: name, Ours: name == leasewheelCandidate.name}, r, workBatches, name, fmt.Sprint(n))
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}
