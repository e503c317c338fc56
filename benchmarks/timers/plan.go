// The plan of a run: its samples and their order.

package main

import (
	"slices"
	"time"
)

// job is one sample to take.
type job struct {
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Spec is the spec of the row. The process of the sample gets Spec.forPeer.
	Spec spec `json:"spec"`
}

// shorten cuts the time of a sample for a quick run.
func (s spec) shorten() spec {
	switch s.Work {
	case "fire":
	case "spread", "probe":
		s.For = 6 * time.Second
	default:
		s.For /= 2
	}
	return s
}

// plan lists the samples in the order in which they run: round by round, spec by
// spec, peer by peer.
func plan(quick bool, rounds int) []job {
	type need struct {
		spec   spec
		peers  []string
		repeat repetition
	}
	var needs []need
	for _, r := range rows {
		if quick && r.notQuick {
			continue
		}
		i := slices.IndexFunc(needs, func(n need) bool { return n.spec == r.sample })
		if i < 0 {
			i = len(needs)
			needs = append(needs, need{spec: r.sample, repeat: onlyOnce})
		}
		needs[i].peers = append(needs[i].peers, r.peers()...)
		needs[i].repeat = min(needs[i].repeat, r.repeat)
	}
	var jobs []job
	for round := range rounds {
		for _, n := range needs {
			for _, p := range rotate(order(), round) {
				if !slices.Contains(n.peers, p) || !n.repeat.includes(p, round) || !hasTick(p, n.spec.Tick) {
					continue
				}
				j := job{Peer: p, Round: round, Spec: n.spec}
				if quick {
					j.Spec = j.Spec.shorten()
				}
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// repetition determines in which rounds a row is measured.
type repetition int

const (
	everyRound repetition = iota
	peersOnce             // our engines in every round, all others in the first
	onlyOnce              // in the first round
)

func (r repetition) includes(peer string, round int) bool {
	return round == 0 || r == everyRound || r == peersOnce && isOurs(peer)
}

// rotate starts each round with another peer, so that none is always the first.
func rotate(names []string, round int) []string {
	first := round * 3 % len(names)
	return append(slices.Clone(names[first:]), names[:first]...)
}

// order returns the peers in the order of the tables.
func order() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return append(names, netty)
}

// peers returns the peers whose sample a row needs.
func (r row) peers() []string {
	switch r.sample.Work {
	case "ops":
		if r.sample.Pending > million { // needs much time and memory
			return []string{"wheel", "heap", "std", "antlabs", netty}
		}
		return allBut("wheel-go")
	case "fire":
		return order()
	case "rearm":
		return allBut("containerheap")
	case "probe":
		return allBut("wheel-go")
	case "spread": // needs much time
		return []string{"wheel", netty}
	case "channels":
		return []string{"wheel", "std", "antlabs"}
	case "contexts":
		return []string{"wheel", "heap", "std", "antlabs"}
	case "reset", "idle":
		return allBut("wheel-go", "containerheap")
	}
	return allBut("wheel-go") // wheel-go differs from the wheel only in its callbacks
}

func allBut(names ...string) []string {
	return slices.DeleteFunc(order(), func(p string) bool { return slices.Contains(names, p) })
}

// subjects returns the engine whose figure a row shows, and the Go peers that it is
// compared with.
func (r row) subjects() (own string, goPeers []string) {
	if r.own != "" {
		return r.own, r.goPeers
	}
	return "wheel", wheelPeers
}
