// The graph of clients and their waits, and its cycles.

package waitgraph

import (
	"maps"
	"slices"
)

// graph has the clients as its nodes and their waits as its edges. Several edges may join two
// clients, one for each key.
type graph struct {
	edges [][]edge // by the client that waits
}

type edge struct {
	to   int // the client that holds the lease
	wait Wait
}

// newGraph returns the graph of the waits. The numbers of the clients are in the order of their
// names.
func newGraph(waits []*wait) *graph {
	waiting := make(map[string][]Wait)
	for _, w := range waits {
		waiting[w.place.Client] = append(waiting[w.place.Client], edgesOf(w)...)
	}
	names := slices.Sorted(maps.Keys(waiting))
	g := &graph{edges: make([][]edge, len(names))}
	for from, name := range names {
		slices.SortFunc(waiting[name], compareWaits)
		for _, w := range waiting[name] {
			if to, found := slices.BinarySearch(names, w.Holder.Client); found { // otherwise the client waits for nothing
				g.edges[from] = append(g.edges[from], edge{to, w})
			}
		}
	}
	return g
}

// edgesOf returns one edge for each client that holds the lock, with its first lease.
func edgesOf(w *wait) []Wait {
	var edges []Wait
	seen := make(map[string]bool)
	for _, h := range w.holders {
		if !seen[h.Client] {
			seen[h.Client] = true
			edges = append(edges, Wait{w.key, w.place, h})
		}
	}
	return edges
}

// cycles returns a cycle of several clients for each client that is in one, and then the clients
// that wait for themselves. A client that is in a cycle that was found before has no other.
func (g *graph) cycles() []Cycle {
	var found []Cycle
	shown := make(map[string]bool)
	for root, edges := range g.edges {
		if len(edges) == 0 || shown[edges[0].wait.Waiter.Client] {
			continue
		}
		cycle := g.shortest(root)
		for _, w := range cycle {
			shown[w.Waiter.Client] = true
		}
		if cycle != nil {
			found = append(found, cycle.fromTheLeast())
		}
	}
	for from, edges := range g.edges {
		if i := slices.IndexFunc(edges, func(e edge) bool { return e.to == from }); i >= 0 {
			found = append(found, Cycle{edges[i].wait})
		}
	}
	return found
}

// shortest returns a shortest cycle of several clients through root, or nil if there is none.
func (g *graph) shortest(root int) Cycle {
	type step struct {
		from int
		wait Wait
	}
	steps := make(map[int]step) // the last one of the way from root to a node
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		from := todo[0]
		for _, e := range g.edges[from] {
			if _, seen := steps[e.to]; !seen && e.to != from {
				steps[e.to] = step{from, e.wait}
				todo = append(todo, e.to)
			}
		}
		if last, closed := steps[root]; closed {
			cycle := Cycle{last.wait}
			for n := last.from; n != root; n = steps[n].from {
				cycle = append(cycle, steps[n].wait)
			}
			slices.Reverse(cycle)
			return cycle
		}
	}
	return nil
}

// fromTheLeast returns the cycle with the client of the least name as its first.
func (c Cycle) fromTheLeast() Cycle {
	first := 0
	for i, w := range c {
		if w.Waiter.Client < c[first].Waiter.Client {
			first = i
		}
	}
	return slices.Concat(c[first:], c[:first])
}
