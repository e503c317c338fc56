// The tables and the chart of this program.

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

func sections() []bench.Section {
	return []bench.Section{{Page: "STORES.md", Name: "stores", Report: report, Charts: func(r *bench.Results) map[string]bench.BarChart {
		return map[string]bench.BarChart{"stores": chart(r)}
	}}}
}

// report returns the tables in Markdown.
func report(r *bench.Results) string {
	var b strings.Builder
	if t := lockTable(r); len(t) > 1 {
		run := r.RunOf(workPair)
		fmt.Fprintf(&b, "Pairs and hand-overs: %s each. Renewals: leases with a TTL of %s, for %d periods, or %d for fewer than %d leases. "+
			"CPU is client / server. %v\n\n%s\n%s\n%s\n\n![Times of a pair and of a hand-over, and the CPU time of a renewal](bench/stores.svg)\n",
			run.Notes["window"], run.Notes["TTL"], periods(manyLeases), periods(0), manyLeases, run, t, renewalTable(r), kept(r))
	}
	return b.String() + loadReport(r)
}

// names returns the names of all stores, in the order of the tables.
func names() []string {
	var all []string
	for _, c := range candidates() {
		all = append(all, c.name)
	}
	return all
}

func lockTable(r *bench.Results) bench.Table {
	t := bench.Table{{"store", "server", "on disk when answered", "pair p50 / p99, µs", "CPU, µs", "hand-over p50 / p99, µs"}}
	for _, c := range candidates() {
		pair := r.Cell(workPair, c.name, "p50", "p99")
		handOver := r.Cell(workHandOver, c.name, "p50", "p99")
		if pair+handOver != "" {
			t = append(t, []string{c.name, version(r, c.name), c.durable, pair, r.Cell(workPair, c.name, "client", "server"), handOver})
		}
	}
	return t
}

// version returns the version of a store's server.
func version(r *bench.Results, name string) string {
	for _, s := range r.Samples {
		if s.Candidate == name && len(s.Values) > 0 {
			return r.Runs[s.Run].Notes[name]
		}
	}
	return ""
}

// renewalTable returns the costs of a renewal. It leaves out small numbers of leases if there are larger
// ones: few leases share the fixed costs of a period.
func renewalTable(r *bench.Results) bench.Table {
	numbers := r.Numbers(workRenewals)
	if slices.ContainsFunc(numbers, func(n int) bool { return n >= manyLeases }) {
		numbers = slices.DeleteFunc(numbers, func(n int) bool { return n < manyLeases })
	}
	t := bench.Table{{"store"}}
	for _, n := range numbers {
		t[0] = append(t[0], fmt.Sprintf("%d leases: acquired per second", n), "renewal CPU, µs")
	}
	for _, name := range names() {
		var cells []string
		for _, n := range numbers {
			work := fmt.Sprint(workRenewals, " ", n)
			cells = append(cells, r.Cell(work, name, "acquired"), r.Cell(work, name, "client", "server"))
		}
		t.Add([]string{name}, cells...)
	}
	return t
}

// kept reports how many leases were lost, and how late renewals were sent at worst.
func kept(r *bench.Results) string {
	lost, late := 0.0, 0.0
	for _, s := range r.Samples {
		lost += s.Values["lost"]
		late = max(late, s.Values["late"])
	}
	text := fmt.Sprintf("Leases lost: %.0f.", lost)
	if late > 0 {
		text += fmt.Sprintf(" Renewals sent late, p99: at most %s ms.", bench.Number(late))
	}
	return text
}

// chart returns bars for each store: the time of a pair, the time of a hand-over, and the CPU time of a renewal. The
// scales are logarithmic, because the slowest store takes a thousand times as long as the fastest.
func chart(r *bench.Results) bench.BarChart {
	c := bench.BarChart{Title: "Stores: times, and CPU of client + server (logarithmic)", Log: true}
	group := func(title, work string, keys ...string) {
		g := bench.BarGroup{Title: title}
		for _, name := range names() {
			g.Add(bench.Bar{Name: name, Ours: true}, r, work, name, keys...)
		}
		c.Groups = append(c.Groups, g)
	}
	group("lock and unlock, µs", workPair, "p50")
	group("hand-over, µs", workHandOver, "p50")
	group(fmt.Sprintf("CPU of a renewal, %d leases, µs", manyLeases), fmt.Sprint(workRenewals, " ", manyLeases), "client", "server")
	return c
}
