// The plan of a run: its samples and their order.

package main

import (
	"slices"
	"strings"
	"time"
)

// job is one sample to take.
type job struct {
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Spec is the spec of the row. The process of the sample gets Spec.forPeer.
	Spec spec `json:"spec"`
}

// settings say what to measure and how long.
type settings struct {
	quick  bool
	rounds int
	rows   []string // ids, or first parts of ids; empty means all
	peers  []string // empty means all
}

// shorten cuts the time of a sample for a quick run.
func (s settings) shorten(sample spec) spec {
	if !s.quick {
		return sample
	}
	switch sample.Work {
	case "fire":
	case "spread", "probe":
		sample.For = 6 * time.Second
	default:
		sample.For /= 2
	}
	return sample
}

// selected returns the rows to measure.
func (s settings) selected() []row {
	var out []row
	for _, r := range rows {
		if (s.quick && r.notQuick) || (len(s.rows) > 0 && !slices.ContainsFunc(s.rows, r.matches)) {
			continue
		}
		out = append(out, r)
	}
	return out
}

func (r row) matches(id string) bool { return r.ID == id || strings.HasPrefix(r.ID, id+"-") }

// plan lists the samples in the order in which they run: round by round, spec by
// spec, peer by peer.
func (s settings) plan() []job {
	type need struct {
		spec   spec
		peers  []string
		repeat repetition
	}
	var needs []need
	for _, r := range s.selected() {
		i := slices.IndexFunc(needs, func(n need) bool { return n.spec == r.sample })
		if i < 0 {
			i = len(needs)
			needs = append(needs, need{spec: r.sample, repeat: onlyOnce})
		}
		needs[i].peers = append(needs[i].peers, r.peers()...)
		needs[i].repeat = min(needs[i].repeat, r.repeat)
	}
	var jobs []job
	for round := range s.rounds {
		for _, n := range needs {
			for _, p := range rotate(order(), round) {
				if slices.Contains(n.peers, p) && n.repeat.includes(p, round) && s.measures(p, round) && hasTick(p, n.spec.Tick) {
					jobs = append(jobs, job{Peer: p, Round: round, Spec: s.shorten(n.spec)})
				}
			}
		}
	}
	return jobs
}

// repetition says in which rounds a row is measured.
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

// measures reports whether the settings include a peer in a round.
func (s settings) measures(peer string, round int) bool {
	if len(s.peers) > 0 {
		return slices.Contains(s.peers, peer)
	}
	return !isOccasional(peer) || !s.quick && round == 0
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
		switch {
		case r.sample.Buckets > 0:
			return []string{"wheel"}
		case r.sample.Ordered:
			return []string{"wheel", "heap", "std"}
		}
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
