package main

import (
	"fmt"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// goal is what is wanted of this module.
type goal struct {
	name, want string

	// reach returns what was reached by a contestant of ours, and whether that is
	// enough; measured is false if something was not measured.
	reach func(r *results, name string) (what string, met, measured bool)
}

// goals returns the table of what is wanted and what was reached.
func (r *results) goals() bench.Table {
	t := bench.Table{{"goal", "wanted"}}
	var ours []string
	for _, c := range contestants() {
		_, single := r.Figures[c.name]
		_, clustered := r.Figures[clusterPrefix+c.name]
		if c.ours && (single || clustered) {
			ours = append(ours, c.name)
		}
	}
	t[0] = append(t[0], ours...)
	for _, g := range goals(r) {
		cells := []string{g.name, g.want}
		for _, name := range ours {
			what, met, measured := g.reach(r, name)
			switch {
			case !measured:
				what = none
			case met:
				what += " ✓"
			default:
				what += " ✗"
			}
			cells = append(cells, what)
		}
		t = append(t, cells)
	}
	return t
}

func goals(r *results) []goal {
	redisCPU := func(f figures) float64 { return f.RedisCPU }
	clientCPU := func(f figures) float64 { return f.ClientCPU }
	least := 1000 * (r.TTL - r.TTL/3 - 0.05)
	return []goal{
		{"redis CPU per renewal", "≤ 2.7 µs", atMost(2.7, "%.2f µs", redisCPU)},
		{"… of that of redsync", "≤ 1/3.4", partOf("redsync", 3.4, redisCPU)},
		{"… of that of redislock", "≤ 1/3.4", partOf("redislock", 3.4, redisCPU)},
		{"… of that of rueidislock", "≤ 1/1.6", partOf("rueidislock", 1.6, redisCPU)},
		{"client CPU per renewal", "≤ 2.0 µs", atMost(2, "%.2f µs", clientCPU)},
		{"… of that of rueidislock", "≤ 1/4", partOf("rueidislock", 4, clientCPU)},
		{"… of that of redsync", "≤ 1/9", partOf("redsync", 9, clientCPU)},
		{"goroutines", "≤ 12", atMost(12, "%.0f", func(f figures) float64 { return float64(f.Goroutines) })},
		{"RSS", "≤ 80 MiB", atMost(80, "%.0f MiB", func(f figures) float64 { return f.RSS })},
		{"heap per lock", "≤ 600 B", atMost(600, "%.0f B", func(f figures) float64 { return f.Heap })},
		{"late p99, by the client", "≤ 25 ms", atMost(25, "%.1f ms", func(f figures) float64 { return f.OwnLateP99 })},
		{"smallest PTTL seen", fmt.Sprintf("≥ %.0f ms", least), atLeast(least, "%.0f ms", func(f figures) float64 { return f.LeastPTTL })},
		{"flat out", "≥ 450,000/s", atLeast(450_000, "%.0f/s", func(f figures) float64 { return f.Saturated })},
		{"a script, p99", "≤ 50 µs", atMost(50, "%.0f µs", func(f figures) float64 { return f.ScriptP99 })},
		{"lost without a fault", "0", atMost(0, "%.0f", func(f figures) float64 { return float64(f.Lost + f.Missing) })},
		{"one of three masters hangs: late p99", "≤ 50 ms", inOutage(func(o *outage) float64 { return o.HangingP99 })},
		{"one of three masters dead: late p99", "≤ 50 ms", inOutage(func(o *outage) float64 { return o.DeadP99 })},
	}
}

func atMost(most float64, format string, get func(figures) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		f, measured := r.Figures[name]
		return fmt.Sprintf(format, get(f)), get(f) <= most, measured
	}
}

func atLeast(least float64, format string, get func(figures) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		f, measured := r.Figures[name]
		return fmt.Sprintf(format, get(f)), get(f) >= least, measured
	}
}

// partOf wants a figure to be at most the given part of a peer's.
func partOf(peer string, part float64, get func(figures) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		p, peerMeasured := r.Figures[peer]
		f, measured := r.Figures[name]
		ratio := get(p) / get(f)
		return fmt.Sprintf("1/%.2f", ratio), ratio >= part, measured && peerMeasured
	}
}

func inOutage(get func(*outage) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		o := r.Figures[clusterPrefix+name].Outage
		if o == nil {
			return "", false, false
		}
		return fmt.Sprintf("%.0f ms", get(o)), get(o) <= 50, true
	}
}
