// The tables and the chart of this program.

package main

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// page is the document that holds the tables.
const page = "STORES.md"

// report returns the tables in Markdown.
func (r *results) report() string {
	return fmt.Sprintf("Pairs and hand-overs: %v s each. Renewals: leases with a TTL of %v s, for %d periods, or %d for fewer than %d leases. "+
		"%s, %s, load average %s. CPU is client + server.\n\n%s\n%s\n%s\n",
		r.Window, r.TTL, periods(manyLeases), periods(0), manyLeases, r.Machine, r.Go, r.LoadBefore, r.lockTable(), r.renewalTable(), r.kept()) + r.loadReport()
}

// measured returns the names of the stores with figures, in the order of the tables.
func (r *results) measured() []string {
	var names []string
	for _, c := range candidates() {
		if r.Stores[c.name] != nil {
			names = append(names, c.name)
		}
	}
	return names
}

func (r *results) lockTable() bench.Table {
	t := bench.Table{{"store", "server", "on disk when answered", "pair p50 / p99, µs", "CPU, µs", "hand-over p50 / p99, µs"}}
	for _, name := range r.measured() {
		f := r.Stores[name]
		t = append(t, []string{
			name, f.Server, f.Durable, number(f.Pair.P50) + " / " + number(f.Pair.P99), cpu(f.Pair.ClientCPU, f.Pair.ServerCPU),
			number(f.HandOver.P50) + " / " + number(f.HandOver.P99),
		})
	}
	return t
}

// renewalTable returns the costs of a renewal. It leaves out small numbers of leases if there are larger
// ones: few leases share the fixed costs of a period.
func (r *results) renewalTable() bench.Table {
	numbers := r.numbers()
	if slices.ContainsFunc(numbers, func(n int) bool { return n >= manyLeases }) {
		numbers = slices.DeleteFunc(numbers, func(n int) bool { return n < manyLeases })
	}
	t := bench.Table{{"store"}}
	for _, n := range numbers {
		t[0] = append(t[0], fmt.Sprintf("%d leases: acquired per second", n), "renewal CPU, µs")
	}
	for _, name := range r.measured() {
		cells, found := []string{name}, false
		for _, n := range numbers {
			f, ok := r.Stores[name].Renewals[n]
			if !ok {
				cells = append(cells, "", "")
				continue
			}
			found = true
			cells = append(cells, number(f.AcquiredPerSecond), cpu(f.ClientCPU, f.ServerCPU))
		}
		if found {
			t = append(t, cells)
		}
	}
	return t
}

// kept says how many leases were lost, and how late renewals were sent at worst.
func (r *results) kept() string {
	lost, late := 0, 0.0
	for _, f := range r.Stores {
		for _, renewals := range f.Renewals {
			lost += renewals.Lost
			late = max(late, renewals.LateP99)
		}
	}
	return fmt.Sprintf("Leases lost: %d. Renewals sent late, p99: at most %s ms.", lost, number(late))
}

// cpu formats the processor time of a client and of a server, which is 0 without one, and in a short run.
func cpu(client, server float64) string {
	if server == 0 {
		return number(client)
	}
	return number(client) + " + " + number(server)
}

// numbers returns the numbers of leases that were measured.
func (r *results) numbers() []int {
	all := map[int]bool{}
	for _, f := range r.Stores {
		for n := range f.Renewals {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// number formats a figure with at least two significant digits.
func number(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// document writes the chart and the tables into the folder of the documents.
func (r *results) document(docs string) error {
	if err := bench.WriteFile(filepath.Join(docs, "bench", "stores.svg"), r.chart()); err != nil {
		return err
	}
	return bench.Document(filepath.Join(docs, page), "stores", "\n"+r.report()+"\n![Times of a pair and of a hand-over, and the CPU time of a renewal](bench/stores.svg)\n\n")
}

// chart returns bars for each store: the time of a pair, the time of a hand-over, and the CPU time of
// a renewal. The scales are logarithmic, because the slowest store takes a thousand times as long as
// the fastest.
func (r *results) chart() string {
	names := r.measured()
	numbers := r.numbers()
	type column struct {
		title string
		value func(f *figures) float64
	}
	columns := []column{
		{"lock and unlock, µs", func(f *figures) float64 { return f.Pair.P50 }},
		{"hand-over, µs", func(f *figures) float64 { return f.HandOver.P50 }},
	}
	if i := slices.IndexFunc(numbers, func(n int) bool { return n >= manyLeases }); i >= 0 {
		n := numbers[i]
		columns = append(columns, column{fmt.Sprintf("CPU of a renewal, µs, %d leases", n), func(f *figures) float64 {
			return f.Renewals[n].ClientCPU + f.Renewals[n].ServerCPU
		}})
	}
	const left, width, gap, top, step, height = 120, 150, 66, 40, 26, 16
	var b strings.Builder
	bottom := top + step*len(names)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n",
		left+len(columns)*(width+gap), bottom+30)
	b.WriteString("<title>Times of a pair and of a hand-over, and the CPU time of a renewal</title>\n")
	b.WriteString(`<style>text{fill:#24292f}.n{fill:#57606a}.c{fill:#0969da}` +
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#8b949e}.c{fill:#58a6ff}}</style>` + "\n")
	for i, name := range names {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", left-8, top+step*i+13, bench.Escape(name))
	}
	for k, c := range columns {
		x := left + k*(width+gap)
		fmt.Fprintf(&b, `<text class="n" x="%d" y="24">%s</text>`+"\n", x, bench.Escape(c.title))
		low, high := math.Inf(1), 0.0
		for _, name := range names {
			if v := c.value(r.Stores[name]); v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
		for i, name := range names {
			v := c.value(r.Stores[name])
			if v <= 0 {
				continue
			}
			w := width * (0.05 + 0.95*math.Log(v/low)/math.Max(math.Log(high/low), 1))
			y := top + step*i
			fmt.Fprintf(&b, `<rect class="c" x="%d" y="%d" width="%.1f" height="%d"/><text class="n" x="%.1f" y="%d">%s</text>`+"\n",
				x, y, w, height, float64(x)+w+5, y+13, number(v))
		}
	}
	fmt.Fprintf(&b, `<text class="n" x="%d" y="%d">Logarithmic scales, one for each column: a bar twice as long is not twice the time.</text>`+"\n", left, bottom+18)
	b.WriteString("</svg>\n")
	return b.String()
}
