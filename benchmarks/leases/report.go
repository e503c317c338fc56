// The tables of this program.

package main

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// report returns the tables in Markdown.
func (r *results) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d locks of %v s, each renewed every %.3g s, measured for %v s. %v ", r.Leases, r.TTL, r.TTL/3, r.Window, r.setup)
	fmt.Fprintf(&b, "An idle server needed %.2f %% of a core, which is subtracted.\n\n", 100*r.Idle)
	names := r.names()
	t := bench.Table{append([]string{"figure"}, names...)}
	for _, row := range rows() {
		cells := []string{row.name}
		for _, name := range names {
			cells = append(cells, row.cell(r.Figures[name]))
		}
		t = append(t, cells)
	}
	b.WriteString(t.String() + "\n")
	b.WriteString(r.goals().Goals())
	return b.String()
}

// names returns the measured targets in the order of the table.
func (r *results) names() []string {
	var names []string
	for _, prefix := range []string{"", clusterPrefix} {
		for _, c := range candidates() {
			if _, measured := r.Figures[prefix+c.name]; measured {
				names = append(names, prefix+c.name)
			}
		}
	}
	return names
}

// row is a row of the table of figures.
type row struct {
	name string
	cell func(figures) string
}

func rows() []row {
	list := []row{
		{"redis CPU per renewal, µs", func(f figures) string { return fmt.Sprintf("%.2f", f.RedisCPU) }},
		{"client CPU per renewal, µs", func(f figures) string { return fmt.Sprintf("%.2f", f.ClientCPU) }},
		{"goroutines", func(f figures) string { return fmt.Sprint(f.Goroutines) }},
		{"RSS of the client, MiB", func(f figures) string { return fmt.Sprintf("%.0f", f.RSS) }},
		{"heap + stacks, bytes per lock", func(f figures) string { return fmt.Sprintf("%.0f + %.0f", f.Heap, f.Stack) }},
		{"late p50 / p99 ms, by the monitors", func(f figures) string { return fmt.Sprintf("%.0f / %.0f", f.LateP50, f.LateP99) }},
		{"renewing without pause, renewals per second", func(f figures) string { return fmt.Sprintf("%.0f", f.Saturated) }},
		{"lost: reported / missing keys", func(f figures) string { return fmt.Sprintf("%d / %d", f.Lost, f.Missing) }},
		{"one master hangs: late p99 / worst ms", func(f figures) string {
			return f.outage(func(o *outage) (p99, worst float64) { return o.HangingP99, o.HangingMax })
		}},
		{"one master dead: late p99 / worst ms", func(f figures) string {
			return f.outage(func(o *outage) (p99, worst float64) { return o.DeadP99, o.DeadMax })
		}},
	}
	return list
}

const none = "–"

func (f figures) outage(get func(*outage) (p99, worst float64)) string {
	if f.Outage == nil {
		return none
	}
	p99, worst := get(f.Outage)
	return fmt.Sprintf("%.0f / %.0f", p99, worst)
}
