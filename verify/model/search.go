package model

import (
	"hash/maphash"
	"time"
)

// Result is what a search has found.
type Result struct {
	Config      Config
	States      uint64
	Transitions uint64
	Depth       int // steps from the beginning to the farthest state
	Drained     uint64
	Took        time.Duration
	Exhausted   bool
	Broken      string // the promise, if one
	Begin       State
	Trace       []Step // the shortest way there from Begin
}

// Search visits all states of a configuration, nearest first, until one breaks a
// promise or there are more than most; 0 is no bound.
func Search(c Config, most uint64) Result {
	began := time.Now()
	b := &search{Model: New(c), seed: maphash.MakeSeed(), known: newTable()}
	b.result.Config = c
	b.run(most)
	b.result.States = b.known.n
	b.result.Took = time.Since(began)
	return b.result
}

type search struct {
	*Model
	seed   maphash.Seed
	known  *table
	layer  []State // the states that are one step farther than those before
	next   []State
	result Result
}

func (b *search) run(most uint64) {
	for _, s := range b.Initial() {
		b.enter(&s, 0, Step{}, "")
	}
	for len(b.next) > 0 {
		b.layer, b.next = b.next, b.layer[:0]
		for i := range b.layer {
			from := &b.layer[i]
			parent := b.fingerprint(from)
			b.Steps(from, func(step Step, s *State, bad string) {
				b.result.Transitions++
				if b.result.Broken == "" {
					b.enter(s, parent, step, bad)
				}
			})
			if b.result.Broken != "" || most > 0 && b.known.n > most {
				return
			}
		}
		if len(b.next) > 0 {
			b.result.Depth++
		}
	}
	b.result.Exhausted = true
}

// enter takes up a state that was not seen before.
func (b *search) enter(s *State, parent uint64, last Step, bad string) {
	if bad == "" {
		if !b.known.add(b.fingerprint(s), parent) {
			return
		}
		bad = b.Check(s)
	}
	if bad == "" && b.Every > 0 && b.known.n%b.Every == 0 {
		b.result.Drained++
		bad = b.Drain(s)
	}
	if bad != "" {
		b.result.Broken = bad
		b.result.Trace = append(b.trace(parent), last)
		return
	}
	b.next = append(b.next, *s)
}

// fingerprint is the same for states that differ only in which owner is which.
func (b *search) fingerprint(s *State) uint64 {
	type common struct {
		world        World
		server, copy [5]uint8
	}
	keys := func(v *Server) [5]uint8 { return [5]uint8{v.Token, v.Left, v.Last, v.LastLeft, v.QueueLeft} }
	sum := maphash.Comparable(b.seed, common{s.World, keys(&s.Server), keys(&s.Copy)})
	type own struct {
		owner Owner
		seats [2]Seat
	}
	for i := range s.Owners {
		h := maphash.Comparable(b.seed, own{s.Owners[i], [2]Seat{s.Server.Seats[i], s.Copy.Seats[i]}})
		sum += mix(h)
	}
	return max(mix(sum), 1)
}

// mix is a permutation in which every bit of x moves every bit of the outcome: the
// finalizer of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// trace is the way to a state, made by going back from parent to parent and then
// forth again, step by step.
func (b *search) trace(of uint64) []Step {
	var way []uint64
	for ; of != 0; of = b.known.parent(of) {
		way = append(way, of)
	}
	if len(way) == 0 {
		return nil
	}
	var steps []Step
	at := b.begin(way[len(way)-1])
	b.result.Begin = at
	for i := len(way) - 2; i >= 0; i-- {
		var found *State
		b.Steps(&at, func(step Step, s *State, bad string) {
			if found == nil && bad == "" && b.fingerprint(s) == way[i] {
				after := *s
				found = &after
				steps = append(steps, step)
			}
		})
		at = *found
	}
	return steps
}

func (b *search) begin(root uint64) State {
	for _, s := range b.Initial() {
		if b.fingerprint(&s) == root {
			return s
		}
	}
	panic("model: a trace begins nowhere")
}
