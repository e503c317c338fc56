// The tables, the goals and the charts of this program.

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

var engines = []string{wheelEngine.name, heapEngine.name}

func sections() []bench.Section {
	return []bench.Section{
		{Page: bench.Page, Name: "leases", Report: report, Charts: func(r *bench.Results) map[string]string {
			return map[string]string{"leases": chart(r).SVG()}
		}},
		{Page: bench.Page, Name: "lease-scale", Report: scaleReport, Charts: func(r *bench.Results) map[string]string {
			return map[string]string{"lease-scale": scaleChart(r).SVG()}
		}},
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
	{"renewing without pause, renewals per second", []string{"saturated"}},
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
		fmt.Fprintf(&b, "%s\n%s", t, r.Goals(goals(work, run), engines...))
	}
	return b.String()
}

// goals returns the goals of this module for a number of leases.
func goals(work string, run bench.Run) []bench.Goal {
	ttl, _ := time.ParseDuration(run.Notes["TTL"]) // 0 if nothing was measured
	smallest := float64((ttl - ttl/3 - 50*time.Millisecond).Milliseconds())
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
		{Name: "late p99, by the client", Of: of("client late p99"), Bound: 25, Unit: " ms"},
		{Name: "smallest PTTL", Of: of("smallest PTTL"), Bound: smallest, Least: true, Unit: " ms"},
		{Name: "renewing without pause", Of: of("saturated"), Bound: 450_000, Least: true, Unit: "/s"},
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
			redis, ok := r.Figure(work, one.name, "redis")
			client, _ := r.Figure(work, one.name, "client")
			class := "other"
			if one.ours {
				class = "ours"
			}
			if ok {
				g.Bars = append(g.Bars, bench.Bar{Name: one.name, Class: class, Parts: []float64{redis, client}})
			}
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
func scaleChart(r *bench.Results) bench.LineChart {
	c := bench.LineChart{Title: "CPU of a renewal against the number of leases (logarithmic)", Unit: "µs", XLabel: "leases in one process", Low: 0.1}
	var works []string
	for _, n := range r.Numbers(workScale) {
		c.X = append(c.X, fmt.Sprint(n))
		works = append(works, fmt.Sprint(workScale, " ", n))
	}
	for _, panel := range [][2]string{{"client", "client"}, {"redis-server", "redis"}} {
		p := bench.Panel{Title: panel[0]}
		for _, engine := range engines {
			p.Series = append(p.Series, bench.Series{Name: engine, Ours: engine == wheelEngine.name, Values: r.Line(works, engine, panel[1])})
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}
