package main

import (
	"fmt"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// goals returns the table of what is wanted of this module and what was reached.
func (r *results) goals() bench.Table {
	t := bench.Table{{"goal", "wanted", "reached"}}
	add := func(goal, want, got string, met bool) {
		mark := " ✗"
		if met {
			mark = " ✓"
		}
		t = append(t, []string{goal, want, got + mark})
	}
	us, peer := r.Pairs[64][ours.name], r.Pairs[64][rueidisPeer.name]
	if us.Rate > 0 && peer.Rate > 0 {
		add("64 goroutines, pairs/s, of those of rueidislock", "≥ 1", fmt.Sprintf("%.2f", us.Rate/peer.Rate), us.Rate >= peer.Rate)
	}
	us, peer = r.Pairs[1][ours.name], r.Pairs[1][redsyncPeer.name]
	if us.Rate > 0 && peer.Rate > 0 {
		add("one goroutine, pairs/s, of those of redsync", "≥ 1", fmt.Sprintf("%.2f", us.Rate/peer.Rate), us.Rate >= peer.Rate)
		add("one goroutine, client CPU, of that of redsync", "≤ 0.8", fmt.Sprintf("%.2f", us.ClientCPU/peer.ClientCPU), us.ClientCPU <= 0.8*peer.ClientCPU)
	}
	for _, n := range []int{2, 8, 64} {
		h := r.HandOvers[n][ours.name]
		if h.Rate == 0 {
			continue
		}
		of := fmt.Sprintf("%d clients, ", n)
		add(of+"hand-over p50 / PING", "≤ 3.5", fmt.Sprintf("%.1f", h.P50/h.Ping), h.P50 <= 3.5*h.Ping)
		add(of+"hand-over p99 / PING", "≤ 8", fmt.Sprintf("%.1f", h.P99/h.Ping), h.P99 <= 8*h.Ping)
		add(of+"commands per hand-over", "≤ 2", fmt.Sprintf("%.4f", h.Commands), h.Commands <= 2)
		add(of+"Jain's index", "≥ 0.99", fmt.Sprintf("%.3f", h.Jain), h.Jain >= 0.99)
	}
	h, other := r.HandOvers[64][ours.name], r.HandOvers[64][rueidisPeer.name]
	if h.Rate > 0 && other.Rate > 0 {
		add("64 clients, hand-over p50, faster than rueidislock", "≥ 10 ×", fmt.Sprintf("%.1f ×", other.P50/h.P50), other.P50 >= 10*h.P50)
	}
	if ms, measured := r.Batches[ours.name][1000]; measured {
		add("1,000 members, ms", "≤ 5", fmt.Sprintf("%.1f", ms), ms <= 5)
	}
	return t
}
