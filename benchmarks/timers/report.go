// The tables, the goals and the charts of this program.

package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

func sections() []bench.Section {
	return []bench.Section{
		{Page: bench.Page, Name: "timers", Report: page, Charts: allCharts},
	}
}

func works(r *bench.Results) []string {
	all := map[string]bool{}
	for _, s := range r.Samples {
		all[s.Work] = true
	}
	return slices.Collect(maps.Keys(all))
}

// figure returns the figure of a row for a peer.
func (r row) figure(results *bench.Results, peer string) (float64, bool) {
	return results.Figure(r.sample.name(), peer, r.key)
}

// pageRows are the figures that the table shows.
var pageRows = []string{
	"hot-0", "hot-1m", "hot-10m", "par-1m", "replace", "reset", "fire", "fire-p99", "fire-early", "rearm", "spread", "bytes", "gc", "idle",
	"after", "after-allocs", "after-channels", "context", "context-bytes", "context-done", "context-done-bytes",
	"context-child", "context-child-bytes",
}

// page returns the section of the page: where the figures come from, some figures of the engines that people use, and
// the goals that are missed. A chart shows the probes.
func page(r *bench.Results) string {
	var shown []row
	for _, id := range pageRows {
		w, err := rowNamed(id)
		must(err)
		shown = append(shown, w)
	}
	names := slices.DeleteFunc(r.Measured(order(), works(r)...), func(p string) bool { return p == "wheel-go" })
	var b strings.Builder
	for i, run := range r.Runs {
		if i == 0 {
			fmt.Fprintf(&b, "%s, %s, %s. Reading the clock takes %s, locking and unlocking a mutex %s.\n\n",
				run.Machine, run.Notes["system"], run.Go, run.Notes["clock"], run.Notes["lock"])
			for _, peer := range slices.Sorted(maps.Keys(run.Notes)) {
				if strings.Contains(peer, "/") || peer == netty {
					b.WriteString("- " + run.Note(peer) + "\n")
				}
			}
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- `go run ./%s`, load average %s\n", run.Command, run.Load)
	}
	return b.String() + "\n" + figures(r, shown, names) + "\n" + r.Goals(goals(r), "ours")
}

// goals returns the goals of all rows: a bound of the figure, and of its ratios to other peers.
func goals(r *bench.Results) []bench.Goal {
	var all []bench.Goal
	for _, w := range rows {
		own, _ := w.subjects()
		of := bench.Ref{Work: w.sample.name(), Candidate: own, Key: w.key}
		if w.goal.figure > 0 || w.goal.zero {
			all = append(all, bench.Goal{Name: w.Name, Of: of, Bound: w.goal.figure, Unit: unit(w), Noise: w.noise})
		}
		if w.goal.aboveRow != "" {
			base, err := rowNamed(w.goal.aboveRow)
			must(err)
			if v, ok := base.figure(r, own); ok {
				all = append(all, bench.Goal{Name: w.Name, Of: of, Bound: v + w.goal.above, Unit: unit(w), Noise: w.noise})
			}
		}
		ratio := func(peer string, bound float64) {
			if bound > 0 && peer != "" {
				all = append(all, bench.Goal{Name: w.Name + " ÷ " + titleOf(peer), Of: of, Per: bench.Ref{Candidate: peer}, Bound: bound, Noise: w.noise})
			}
		}
		ratio("std", w.goal.std)
		ratio(w.bestPeer(r), w.goal.goPeer)
		ratio(netty, w.goal.netty)
	}
	return all
}

// bestPeer returns the Go peer with the lowest figure of a row, or "".
func (r row) bestPeer(results *bench.Results) (name string) {
	_, goPeers := r.subjects()
	lowest := math.Inf(1)
	for _, p := range goPeers {
		if v, found := r.figure(results, p); found && v < lowest {
			lowest, name = v, p
		}
	}
	return name
}

// figures returns a table of the figures of peers.
func figures(r *bench.Results, rows []row, names []string) string {
	t := bench.Table{{"work"}}
	for _, p := range names {
		t[0] = append(t[0], titleOf(p))
	}
	for _, w := range rows {
		var cells []string
		for _, p := range names {
			cells = append(cells, r.Cell(w.sample.name(), p, w.key))
		}
		t.Add([]string{w.Name + inUnit(w)}, cells...)
	}
	return t.String()
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

// charts are the rows that are shown as groups of bars, with one bar for each peer.
var charts = []struct {
	file, title string
	rows        []string // ids
	log         bool
}{
	{file: "probe", title: "A timer of 5 ms beside others: worst lateness (logarithmic)", rows: []string{"probe-0", "probe-1m-1", "probe-1m-10", "probe-10m-1", "probe-10m-10"}, log: true},
	{file: "schedule-stop", title: "Schedule and stop: CPU", rows: []string{"hot-0", "hot-100k", "hot-1m", "hot-10m"}},
	{file: "all-cores", title: "Schedule and stop on all cores: wall time", rows: []string{"par-100k", "par-1m"}},
	{file: "replace-reset", title: "A random timer of 1,000,000: CPU", rows: []string{"replace", "reset"}},
	{file: "fire", title: "CPU per fire", rows: []string{"fire", "fire-10", "rearm", "rearm-10"}},
	{file: "lateness", title: "Lateness, 1,000,000 fires in a second (logarithmic)", rows: []string{"fire-p50", "fire-p99", "fire-max"}, log: true},
	{file: "memory", title: "1,000,000 pending", rows: []string{"bytes", "gc"}},
	{file: "heap", title: "heapqueue: CPU", rows: []string{"hot-0", "heap-near"}},
}

func allCharts(r *bench.Results) map[string]bench.BarChart {
	all := map[string]bench.BarChart{}
	for _, one := range charts {
		c := bench.BarChart{Title: one.title, Log: one.log}
		for _, id := range one.rows {
			w, err := rowNamed(id)
			must(err)
			c.Groups = append(c.Groups, w.bars(r))
		}
		all[one.file] = c
	}
	return all
}

// bars returns the bars of a row. A peer that fires early has a colour of its own.
func (r row) bars(results *bench.Results) bench.BarGroup {
	g := bench.BarGroup{Title: r.Name + inUnit(r)}
	for _, p := range order() {
		early, _ := results.Figure(r.sample.name(), p, "early")
		b := bench.Bar{Name: titleOf(p), Ours: isOurs(p), Early: early > 0 && r.sample.Work == "fire"}
		g.Add(b, results, r.sample.name(), p, r.key)
	}
	return g
}
