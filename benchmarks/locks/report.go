// The tables of this program, and their section in the documents.

package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

const none = "–"

// report returns the tables in Markdown.
func (r *results) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Each measured for %v s. %s, Redis %s, %s, load average %s before the run.\n", r.Window, r.Machine, r.Redis, r.Go, r.LoadBefore)
	for _, t := range []struct {
		title string
		table bench.Table
	}{
		{"Uncontended locks", r.uncontendedTable()},
		{"A contended lock, held for 2 ms", r.handOverTable()},
		{"Many locks as one: ms to lock and unlock them", r.batchTable()},
	} {
		if len(t.table) > 1 {
			fmt.Fprintf(&b, "\n#### %s\n\n%s", t.title, t.table)
		}
	}
	fmt.Fprintf(&b, "\n#### Goals\n\n%s", r.goals().Goals())
	return b.String()
}

func (r *results) uncontendedTable() bench.Table {
	t := bench.Table{{"goroutines", "client", "pairs/s", "redis CPU, µs", "client CPU, µs", "p50, µs", "p99, µs"}}
	for _, n := range slices.Sorted(maps.Keys(r.Uncontended)) {
		for _, c := range candidates() {
			p, measured := r.Uncontended[n][c.name]
			if !measured || p.Rate == 0 {
				continue
			}
			t = append(t, []string{
				fmt.Sprint(n), c.name, fmt.Sprintf("%.0f", p.Rate), fmt.Sprintf("%.1f", p.RedisCPU), fmt.Sprintf("%.1f", p.ClientCPU),
				fmt.Sprintf("%.0f", p.P50), fmt.Sprintf("%.0f", p.P99),
			})
		}
	}
	return t
}

func (r *results) handOverTable() bench.Table {
	t := bench.Table{{"clients", "client", "p50, µs", "p99, µs", "p50 / PING", "commands", "Jain"}}
	for _, n := range slices.Sorted(maps.Keys(r.HandOvers)) {
		for _, c := range candidates() {
			h, measured := r.HandOvers[n][c.name]
			if !measured || h.Rate == 0 {
				continue
			}
			t = append(t, []string{
				fmt.Sprint(n), c.name, fmt.Sprintf("%.0f", h.P50), fmt.Sprintf("%.0f", h.P99), fmt.Sprintf("%.1f", h.P50/h.Ping),
				fmt.Sprintf("%.2f", h.Commands), fmt.Sprintf("%.3f", h.Jain),
			})
		}
	}
	return t
}

// batchNames returns the measured candidates in the order of the table.
func (r *results) batchNames() []string {
	var names []string
	for _, c := range batchCandidates() {
		names = append(names, c.name)
	}
	return slices.DeleteFunc(append(names, redisson), func(name string) bool { return len(r.Batches[name]) == 0 })
}

func (r *results) batchTable() bench.Table {
	names := r.batchNames()
	t := bench.Table{append([]string{"members"}, names...)}
	if len(names) == 0 {
		return t
	}
	for _, n := range memberCounts {
		cells := []string{fmt.Sprint(n)}
		for _, name := range names {
			cell := none
			if ms, measured := r.Batches[name][n]; measured {
				cell = digits(ms)
			}
			cells = append(cells, cell)
		}
		t = append(t, cells)
	}
	return t
}

// digits formats x with three digits, or with all digits before the point.
func digits(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// document writes the chart and the tables into the folder of the documents.
func (r *results) document(docs string) error {
	if err := bench.WriteFile(filepath.Join(docs, "bench", "batches.svg"), r.chart().SVG()); err != nil {
		return err
	}
	return bench.Document(filepath.Join(docs, bench.Page), "locks", "\n"+r.report())
}
