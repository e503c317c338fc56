package main

import (
	"slices"
	"time"
)

// job is one sample to be taken.
type job struct {
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Spec is that of the row; the peer's process gets it filled in by forPeer.
	Spec spec `json:"spec"`
}

// settings say what to measure and how long.
type settings struct {
	quick  bool
	rounds int
	rows   []string // ids, or beginnings of ids; empty for all
	peers  []string // empty for all
}

// quicker cuts the time of a sample for a quick run.
func (s settings) quicker(sample spec) spec {
	if !s.quick {
		return sample
	}
	switch sample.Work {
	case "fire":
	case "spread":
		sample.For = 6 * time.Second
	default:
		sample.For /= 2
	}
	return sample
}

// chosen returns the rows to measure.
func (s settings) chosen() []row {
	var out []row
	for _, r := range rows {
		if (s.quick && r.full) || (len(s.rows) > 0 && !slices.ContainsFunc(s.rows, r.matches)) {
			continue
		}
		out = append(out, r)
	}
	return out
}

func (r row) matches(id string) bool {
	return r.ID == id || len(r.ID) > len(id) && r.ID[:len(id)+1] == id+"-"
}

// plan lists the samples, in the order in which they are taken: round by round,
// sample by sample, and in each the peers one after another.
func (s settings) plan() []job {
	type need struct {
		spec  spec
		peers []string
		slow  bool
	}
	var needs []need
	for _, r := range s.chosen() {
		at := slices.IndexFunc(needs, func(n need) bool { return n.spec == r.sample })
		if at < 0 {
			at = len(needs)
			needs = append(needs, need{spec: r.sample, slow: true})
		}
		needs[at].peers = append(needs[at].peers, r.peers()...)
		needs[at].slow = needs[at].slow && r.slow
	}
	var jobs []job
	for round := range s.rounds {
		for _, n := range needs {
			if n.slow && round > 0 {
				continue
			}
			for _, p := range turned(order(), round) {
				if slices.Contains(n.peers, p) && s.wants(p, round) && suits(p, n.spec.Tick) {
					jobs = append(jobs, job{Peer: p, Round: round, Spec: s.quicker(n.spec)})
				}
			}
		}
	}
	return jobs
}

// turned begins with another of the names in each round, so that none is always
// the first, after whatever the machine did before.
func turned(names []string, round int) []string {
	first := round * 3 % len(names)
	return append(slices.Clone(names[first:]), names[:first]...)
}

// wants tells whether a peer is measured in a round.
func (s settings) wants(peer string, round int) bool {
	if len(s.peers) > 0 {
		return slices.Contains(s.peers, peer)
	}
	return !aside(peer) || !s.quick && round == 0
}

// order is that of the peers within a round and in tables.
func order() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return append(names, netty)
}

// peers lists those that the sample of a row is taken of.
func (r row) peers() []string {
	switch r.sample.Work {
	case "ops":
		if r.sample.Pending > million { // takes long and much memory
			return []string{"wheel", "heap", "std", "antlabs", netty}
		}
	case "fire":
		return order()
	case "rearm":
		return without("harness", "textbook")
	case "spread": // takes long
		return []string{"wheel", netty}
	case "reset":
		return without("wheel-go", "textbook")
	case "idle":
		return without("wheel-go", "textbook")
	}
	return without("wheel-go") // which differs from the wheel in what a fire does
}

func without(names ...string) []string {
	return slices.DeleteFunc(order(), func(p string) bool { return slices.Contains(names, p) })
}

// who returns the peer whose figure a row is about, and the Go peers that it is
// held against.
func (r row) who() (subject string, rivals []string) {
	if r.subject != "" {
		return r.subject, r.rivals
	}
	return "wheel", wheels
}
