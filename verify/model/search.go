// The breadth-first search of the reachable states.

package model

import "hash/maphash"

// Result is the result of a search.
type Result struct {
	Config    Config
	States    uint64
	Exhausted bool
	Broken    string // the broken promise, or ""
	Begin     State
	Trace     []Action // the shortest trace from Begin
}

// Search visits the reachable states of a configuration breadth first. It stops at the
// first broken promise, or after limit states; 0 means no limit.
func Search(c Config, limit uint64) Result {
	b := &search{Model: New(c), seed: maphash.MakeSeed(), visited: newVisitedSet()}
	b.result.Config = c
	b.run(limit)
	b.result.States = b.visited.n
	return b.result
}

type search struct {
	*Model
	seed    maphash.Seed
	visited *visitedSet
	layer   []State // states at the current distance
	next    []State
	result  Result
}

func (b *search) run(limit uint64) {
	for _, s := range b.Initial() {
		b.enter(&s, 0, Action{}, "")
	}
	for len(b.next) > 0 {
		b.layer, b.next = b.next, b.layer[:0]
		for i := range b.layer {
			from := &b.layer[i]
			parent := b.fingerprint(from)
			b.Successors(from, func(step Action, s *State, bad string) {
				if b.result.Broken == "" {
					b.enter(s, parent, step, bad)
				}
			})
			if b.result.Broken != "" || limit > 0 && b.visited.n > limit {
				return
			}
		}
	}
	b.result.Exhausted = true
}

// enter checks and queues a state that was not visited before.
func (b *search) enter(s *State, parent uint64, last Action, bad string) {
	if bad == "" {
		if !b.visited.add(b.fingerprint(s), parent) {
			return
		}
		bad = b.Check(s)
	}
	if bad == "" && b.Every > 0 && b.visited.n%b.Every == 0 {
		bad = b.CheckLiveness(s)
	}
	if bad != "" {
		b.result.Broken = bad
		b.result.Trace = append(b.trace(parent), last)
		return
	}
	b.next = append(b.next, *s)
}

// fingerprint returns the same value for states that differ only in the order of owners.
func (b *search) fingerprint(s *State) uint64 {
	type common struct {
		world        World
		server, copy [5]uint8
		saved        [2]Saved
	}
	keys := func(v *Server) [5]uint8 { return [5]uint8{v.Token, v.Left, v.Last, v.LastLeft, v.QueueLeft} }
	sum := maphash.Comparable(b.seed, common{s.World, keys(&s.Server), keys(&s.Copy), [2]Saved{s.Server.Saved, s.Copy.Saved}})
	type own struct {
		owner   Owner
		records [2]Record
	}
	for i := range s.Owners {
		h := maphash.Comparable(b.seed, own{s.Owners[i], [2]Record{s.Server.Records[i], s.Copy.Records[i]}})
		if int(s.Guest.Of) == i+1 {
			guest := s.Guest
			guest.Of = 1 // the owners have no order
			h = mix(h) + maphash.Comparable(b.seed, guest)
		}
		sum += mix(h)
	}
	return max(mix(sum), 1)
}

// mix is the finalizer of splitmix64, a permutation in which every bit of x affects every
// bit of the result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// trace returns the actions from an initial state to a state. It follows the parents back
// and then replays the actions.
func (b *search) trace(of uint64) []Action {
	var way []uint64
	for ; of != 0; of = b.visited.parent(of) {
		way = append(way, of)
	}
	if len(way) == 0 {
		return nil
	}
	var steps []Action
	at := b.begin(way[len(way)-1])
	b.result.Begin = at
	for i := len(way) - 2; i >= 0; i-- {
		var found *State
		b.Successors(&at, func(step Action, s *State, bad string) {
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
	panic("model: a trace has no initial state")
}
