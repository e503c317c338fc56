// The goals of this module, and the figures that they bound.

package main

import (
	"fmt"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// goals returns the table of the goals of this module and the figures.
func (r *results) goals() bench.Table {
	t := bench.Table{{"goal", "wanted", "figure"}}
	add := func(goal, want, got string, met bool) {
		mark := " ✗"
		if met {
			mark = " ✓"
		}
		t = append(t, []string{goal, want, got + mark})
	}
	own, peer := r.Uncontended[64][leasewheelCandidate.name], r.Uncontended[64][rueidisPeer.name]
	if own.Rate > 0 && peer.Rate > 0 {
		add("64 goroutines, pairs/s ÷ rueidislock", "≥ 1", fmt.Sprintf("%.2f", own.Rate/peer.Rate), own.Rate >= peer.Rate)
	}
	own, peer = r.Uncontended[1][leasewheelCandidate.name], r.Uncontended[1][redsyncPeer.name]
	if own.Rate > 0 && peer.Rate > 0 {
		add("one goroutine, pairs/s ÷ redsync", "≥ 1", fmt.Sprintf("%.2f", own.Rate/peer.Rate), own.Rate >= peer.Rate)
		add("one goroutine, client CPU ÷ redsync", "≤ 0.8", fmt.Sprintf("%.2f", own.ClientCPU/peer.ClientCPU), own.ClientCPU <= 0.8*peer.ClientCPU)
	}
	if peer = r.Uncontended[1][redislockPeer.name]; own.Rate > 0 && peer.Rate > 0 {
		add("one goroutine, client CPU ÷ redislock", "≤ 1", fmt.Sprintf("%.2f", own.ClientCPU/peer.ClientCPU), own.ClientCPU <= peer.ClientCPU)
	}
	for _, n := range []int{2, 8, 64} {
		h := r.HandOvers[n][leasewheelCandidate.name]
		if h.Rate == 0 {
			continue
		}
		prefix := fmt.Sprintf("%d clients, ", n)
		add(prefix+"hand-over p50 / PING", "≤ 3.5", fmt.Sprintf("%.1f", h.P50/h.Ping), h.P50 <= 3.5*h.Ping)
		add(prefix+"hand-over p99 / PING", "≤ 8", fmt.Sprintf("%.1f", h.P99/h.Ping), h.P99 <= 8*h.Ping)
		add(prefix+"commands per hand-over", "≤ 2", fmt.Sprintf("%.4f", h.Commands), h.Commands <= 2)
		add(prefix+"Jain's index", "≥ 0.99", fmt.Sprintf("%.3f", h.Jain), h.Jain >= 0.99)
	}
	h, other := r.HandOvers[64][leasewheelCandidate.name], r.HandOvers[64][rueidisPeer.name]
	if h.Rate > 0 && other.Rate > 0 {
		add("64 clients, hand-over p50: rueidislock ÷ ours", "≥ 10 ×", fmt.Sprintf("%.1f ×", other.P50/h.P50), other.P50 >= 10*h.P50)
	}
	if ms, measured := r.Batches[leasewheelCandidate.name][1000]; measured {
		add("1,000 members, ms", "≤ 5", fmt.Sprintf("%.1f", ms), ms <= 5)
	}
	return t
}
