// The tables, the goals and the charts of this program.

package main

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

var engines = []string{wheelEngine.name, heapEngine.name}

func sections() []bench.Section {
	return []bench.Section{
		{Page: bench.Page, Name: "leases", Report: report, Charts: func(r *bench.Results) map[string]bench.BarChart {
			return map[string]bench.BarChart{"leases": chart(r), "lease-scale": scaleChart(r)}
		}},
		{Page: bench.Page, Name: "lease-scale", Report: scaleReport},
	}
}

// figures are the rows of the table: titles and the names of the figures.
var figures = []struct {
	title string
	keys  []string
}{
	{"redis CPU per renewal, µs", []string{"redis"}},
	{"client CPU per renewal, µs", []string{"client"}},
	{"goroutines", []string{"goroutines"}},
	{"RSS of the client, MiB", []string{"rss"}},
	{"heap / stacks, bytes per lock", []string{"heap", "stack"}},
	{"late p50 / p99 ms, by the monitors", []string{"late p50", "late p99"}},
	{"lost: reported / missing keys", []string{"lost", "missing"}},
	{"one master hangs: late p99 / worst ms", []string{"hanging p99", "hanging max"}},
	{"one master dead: late p99 / worst ms", []string{"dead p99", "dead max"}},
}

// report returns a table for each number of leases.
func report(r *bench.Results) string {
	var b strings.Builder
	for _, n := range r.Numbers(workHold) {
		work := fmt.Sprint(workHold, " ", n)
		run := r.RunOf(work)
		measured := r.Measured(names(), work)
		idle, _ := r.Figure(work, measured[0], "idle")
		fmt.Fprintf(&b, "%d locks of %s, each renewed every %s, measured for %s. %s, %v An idle server needed %.2f %% of a core, which is subtracted.\n\n",
			n, run.Notes["TTL"], run.Notes["period"], run.Notes["window"], run.Note("Redis"), run, 100*idle)
		t := bench.Table{append([]string{"figure"}, measured...)}
		for _, row := range figures {
			var cells []string
			for _, name := range measured {
				cells = append(cells, r.Cell(work, name, row.keys...))
			}
			t.Add([]string{row.title}, cells...)
		}
		fmt.Fprintf(&b, "%s\n%s", t, r.Goals(goals(work), engines...))
	}
	return b.String()
}

// goals returns the goals of this module for a number of leases.
func goals(work string) []bench.Goal {
	of := func(key string) bench.Ref { return bench.Ref{Work: work, Key: key} }
	to := func(peer string) bench.Ref { return bench.Ref{Candidate: peer} }
	clustered := func(key string) bench.Ref { return bench.Ref{Work: work, Candidate: clusterPrefix + "*", Key: key} }
	return []bench.Goal{
		{Name: "redis CPU per renewal", Of: of("redis"), Bound: 2.7, Unit: " µs"},
		{Name: "… ÷ redsync", Of: of("redis"), Per: to("redsync"), Bound: 1 / 3.4},
		{Name: "… ÷ redislock", Of: of("redis"), Per: to("redislock"), Bound: 1 / 3.4},
		{Name: "… ÷ rueidislock", Of: of("redis"), Per: to("rueidislock"), Bound: 1 / 1.6},
		{Name: "client CPU per renewal", Of: of("client"), Bound: 2, Unit: " µs"},
		{Name: "… ÷ rueidislock", Of: of("client"), Per: to("rueidislock"), Bound: 1.0 / 4},
		{Name: "… ÷ redsync", Of: of("client"), Per: to("redsync"), Bound: 1.0 / 9},
		{Name: "goroutines", Of: of("goroutines"), Bound: 12},
		{Name: "RSS", Of: of("rss"), Bound: 80, Unit: " MiB"},
		{Name: "heap per lock", Of: of("heap"), Bound: 600, Unit: " B"},
		{Name: "script, p99", Of: of("script p99"), Bound: 50, Unit: " µs"},
		{Name: "lost without a fault", Of: of("lost"), Bound: 0},
		{Name: "missing keys", Of: of("missing"), Bound: 0},
		{Name: "one of three masters hangs: late p99", Of: clustered("hanging p99"), Bound: 50, Unit: " ms"},
		{Name: "one of three masters dead: late p99", Of: clustered("dead p99"), Bound: 50, Unit: " ms"},
	}
}

// chart shows the CPU time of a renewal on a single server, of the server and of the client.
func chart(r *bench.Results) bench.BarChart {
	c := bench.BarChart{Title: "CPU of a renewal, µs: redis-server + client"}
	for _, n := range r.Numbers(workHold) {
		work := fmt.Sprint(workHold, " ", n)
		g := bench.BarGroup{Title: fmt.Sprintf("%d locks held", n)}
		for _, one := range candidates() {
			g.Add(bench.Bar{Name: one.name, Ours: one.ours}, r, work, one.name, "redis", "client")
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

// scaleReport returns the figures of our engines against the number of leases.
func scaleReport(r *bench.Results) string {
	numbers := r.Numbers(workScale)
	if numbers == nil {
		return ""
	}
	t := bench.Table{{"leases", "engine", "renewals/s", "client CPU, µs", "redis CPU, µs", "late p99, ms", "RSS per lease, B", "goroutines"}}
	for _, n := range numbers {
		for _, engine := range engines {
			var cells []string
			for _, key := range []string{"rate", "client", "redis", "late p99", "rss per lease", "goroutines"} {
				cells = append(cells, r.Cell(fmt.Sprint(workScale, " ", n), engine, key))
			}
			t.Add([]string{fmt.Sprint(n), engine}, cells...)
		}
	}
	run := r.RunOf(fmt.Sprint(workScale, " ", numbers[0]))
	return fmt.Sprintf("Locks of %s in one process, each renewed every %s, measured for %s. %s, %v\n\n%s\n%s",
		run.Notes["TTL"], run.Notes["period"], run.Notes["window"], run.Note("Redis"), run, t, r.Goals(scaleGoals(numbers), engines...))
}

// scaleGoals returns the goals: the costs of a renewal hardly grow from 10,000 leases to 1,000,000, and none is lost.
func scaleGoals(numbers []int) []bench.Goal {
	const growth = 1.15
	var goals []bench.Goal
	for _, cost := range []string{"client", "client + redis"} {
		goals = append(goals, bench.Goal{
			Name: cost + " CPU per renewal, 1,000,000 ÷ 10,000 leases",
			Of:   bench.Ref{Work: workScale + " 1000000", Key: cost}, Per: bench.Ref{Work: workScale + " 10000"}, Bound: growth,
		})
	}
	for _, n := range numbers {
		for _, key := range []string{"lost", "missing"} {
			goals = append(goals, bench.Goal{Name: fmt.Sprintf("%d leases: %s", n, key), Of: bench.Ref{Work: fmt.Sprint(workScale, " ", n), Key: key}})
		}
	}
	return goals
}

// scaleChart shows the CPU time of a renewal against the number of leases.
func scaleChart(r *bench.Results) bench.BarChart {
	c := bench.BarChart{Title: "CPU of a renewal by the number of leases in one process, µs: redis-server + client"}
	for _, engine := range engines {
		g := bench.BarGroup{Title: engine}
		for _, n := range r.Numbers(workScale) {
			g.Add(bench.Bar{Name: fmt.Sprint(n, " leases"), Ours: true}, r, fmt.Sprint(workScale, " ", n), engine, "redis", "client")
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}
