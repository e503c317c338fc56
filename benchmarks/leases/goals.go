// The goals of this module, and the figures that they bound.

package main

import (
	"fmt"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// goal is a bound of a figure of this module.
type goal struct {
	name, want string

	// check returns the figure of one of our engines and whether it meets the goal.
	// measured is false if the figure, or the one of a peer, is missing.
	check func(r *results, name string) (figure string, met, measured bool)
}

// goals returns the table of the goals and the figures.
func (r *results) goals() bench.Table {
	t := bench.Table{{"goal", "wanted"}}
	var ours []string
	for _, c := range candidates() {
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
			figure, met, measured := g.check(r, name)
			if measured {
				cells = append(cells, figure+mark(met))
			} else {
				cells = append(cells, none)
			}
		}
		t = append(t, cells)
	}
	return t
}

func goals(r *results) []goal {
	redisCPU := func(f figures) float64 { return f.RedisCPU }
	clientCPU := func(f figures) float64 { return f.ClientCPU }
	smallest := 1000 * (r.TTL - r.TTL/3 - 0.05)
	return []goal{
		{"redis CPU per renewal", "≤ 2.7 µs", atMost(2.7, "%.2f µs", redisCPU)},
		{"… ÷ redsync", "≤ 1/3.4", fractionOf("redsync", 3.4, redisCPU)},
		{"… ÷ redislock", "≤ 1/3.4", fractionOf("redislock", 3.4, redisCPU)},
		{"… ÷ rueidislock", "≤ 1/1.6", fractionOf("rueidislock", 1.6, redisCPU)},
		{"client CPU per renewal", "≤ 2.0 µs", atMost(2, "%.2f µs", clientCPU)},
		{"… ÷ rueidislock", "≤ 1/4", fractionOf("rueidislock", 4, clientCPU)},
		{"… ÷ redsync", "≤ 1/9", fractionOf("redsync", 9, clientCPU)},
		{"goroutines", "≤ 12", atMost(12, "%.0f", func(f figures) float64 { return float64(f.Goroutines) })},
		{"RSS", "≤ 80 MiB", atMost(80, "%.0f MiB", func(f figures) float64 { return f.RSS })},
		{"heap per lock", "≤ 600 B", atMost(600, "%.0f B", func(f figures) float64 { return f.Heap })},
		{"late p99, by the client", "≤ 25 ms", atMost(25, "%.1f ms", func(f figures) float64 { return f.ClientLateP99 })},
		{"smallest PTTL", fmt.Sprintf("≥ %.0f ms", smallest), atLeast(smallest, "%.0f ms", func(f figures) float64 { return f.SmallestPTTL })},
		{"renewing without pause", "≥ 450,000/s", atLeast(450_000, "%.0f/s", func(f figures) float64 { return f.Saturated })},
		{"script, p99", "≤ 50 µs", atMost(50, "%.0f µs", func(f figures) float64 { return f.ScriptP99 })},
		{"lost without a fault", "0", atMost(0, "%.0f", func(f figures) float64 { return float64(f.Lost + f.Missing) })},
		{"one of three masters hangs: late p99", "≤ 50 ms", inOutage(func(o *outage) float64 { return o.HangingP99 })},
		{"one of three masters dead: late p99", "≤ 50 ms", inOutage(func(o *outage) float64 { return o.DeadP99 })},
	}
}

func atMost(bound float64, format string, get func(figures) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		f, measured := r.Figures[name]
		return fmt.Sprintf(format, get(f)), get(f) <= bound, measured
	}
}

func atLeast(bound float64, format string, get func(figures) float64) func(*results, string) (string, bool, bool) {
	return func(r *results, name string) (string, bool, bool) {
		f, measured := r.Figures[name]
		return fmt.Sprintf(format, get(f)), get(f) >= bound, measured
	}
}

// fractionOf checks that a figure is at most 1/part of a peer's figure.
func fractionOf(peer string, part float64, get func(figures) float64) func(*results, string) (string, bool, bool) {
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
