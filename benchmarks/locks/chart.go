// The chart of the time to lock many locks as one.

package main

import (
	"fmt"
	"math"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// chart shows the time to lock many locks as one against their number.
func (r *results) chart() bench.LineChart {
	c := bench.LineChart{Title: "Time to lock and unlock many locks as one", Unit: "ms", XLabel: "locks", Low: 0.01}
	for _, n := range memberCounts {
		c.X = append(c.X, fmt.Sprint(n))
	}
	var p bench.Panel
	for _, name := range r.batchNames() {
		s := bench.Series{Name: name, Ours: name == leasewheelCandidate.name}
		for _, n := range memberCounts {
			ms, ok := r.Batches[name][n]
			if !ok {
				ms = math.NaN()
			}
			s.Values = append(s.Values, ms)
		}
		p.Series = append(p.Series, s)
	}
	c.Panels = []bench.Panel{p}
	return c
}
