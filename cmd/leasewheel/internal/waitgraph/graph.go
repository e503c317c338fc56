// The graph of clients and their waits: its components and its cycles.

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

// cycles returns the elementary cycles, at most limit: those of several clients first.
func (g *graph) cycles(limit int) []Cycle {
	var found []Cycle
	for root := 0; len(found) < limit; root++ {
		component := g.firstComponent(root)
		if component == nil {
			break
		}
		root = slices.Min(component)
		found = g.search(root, component, found, limit)
	}
	for from, edges := range g.edges {
		for _, e := range edges {
			if e.to == from && len(found) < limit {
				found = append(found, Cycle{e.wait})
			}
		}
	}
	return found
}

// search finds the cycles of several nodes through root with Johnson's algorithm: the time
// between two cycles is proportional to the size of the graph. A node from which the last visit
// found no way to root is blocked until a node behind it leaves the path.
type search struct {
	*graph
	root    int
	limit   int
	found   []Cycle
	inside  []bool        // the nodes that a cycle through root can have
	blocked []bool        // on the path, or without a way to root past the path
	waiting map[int][]int // nodes to unblock with a node
	path    Cycle
}

// search appends to found the cycles of several nodes of a component that contain root, until
// there are limit of them.
func (g *graph) search(root int, component []int, found []Cycle, limit int) []Cycle {
	s := &search{
		graph: g, root: root, limit: limit, found: found,
		inside: make([]bool, len(g.edges)), blocked: make([]bool, len(g.edges)), waiting: make(map[int][]int),
	}
	for _, n := range component {
		s.inside[n] = true
	}
	s.visit(root)
	return s.found
}

// visit extends the path at a node, and reports whether it has found a cycle.
func (s *search) visit(n int) bool {
	closed := false
	s.blocked[n] = true
	for _, e := range s.edges[n] {
		if e.to == n || !s.inside[e.to] || len(s.found) >= s.limit {
			continue
		}
		s.path = append(s.path, e.wait)
		switch {
		case e.to == s.root:
			s.found = append(s.found, slices.Clone(s.path))
			closed = true
		case !s.blocked[e.to]:
			closed = s.visit(e.to) || closed
		}
		s.path = s.path[:len(s.path)-1]
	}
	if closed {
		s.unblock(n)
		return true
	}
	for _, e := range s.edges[n] {
		if s.inside[e.to] {
			s.waiting[e.to] = append(s.waiting[e.to], n)
		}
	}
	return false
}

func (s *search) unblock(n int) {
	s.blocked[n] = false
	nodes := s.waiting[n]
	delete(s.waiting, n)
	for _, other := range nodes {
		if s.blocked[other] {
			s.unblock(other)
		}
	}
}

// components finds, with Tarjan's algorithm, the strongly connected components of the nodes from
// root upwards: in each of them, every node can be reached from every other.
type components struct {
	*graph
	root    int
	visited int
	order   []int  // of the visits, from 1; 0 for a node that is not visited
	lowest  []int  // the lowest order of an open node that the node is known to reach
	open    []int  // nodes whose component is not complete, in the order of the visits
	isOpen  []bool // by node
	first   []int  // the component of several nodes that has the lowest node
}

// firstComponent returns, of the components of several nodes from root upwards, the one with
// the lowest node, or nil if there is none.
func (g *graph) firstComponent(root int) []int {
	n := len(g.edges)
	c := &components{graph: g, root: root, order: make([]int, n), lowest: make([]int, n), isOpen: make([]bool, n)}
	for node := root; node < n; node++ {
		if c.order[node] == 0 {
			c.visit(node)
		}
	}
	return c.first
}

func (c *components) visit(node int) {
	c.visited++
	c.order[node], c.lowest[node] = c.visited, c.visited
	from := len(c.open)
	c.open, c.isOpen[node] = append(c.open, node), true
	for _, e := range c.edges[node] {
		switch {
		case e.to < c.root:
		case c.order[e.to] == 0:
			c.visit(e.to)
			c.lowest[node] = min(c.lowest[node], c.lowest[e.to])
		case c.isOpen[e.to]:
			c.lowest[node] = min(c.lowest[node], c.order[e.to])
		}
	}
	if c.lowest[node] < c.order[node] { // its component begins at an earlier node
		return
	}
	complete := slices.Clone(c.open[from:])
	c.open = c.open[:from]
	for _, n := range complete {
		c.isOpen[n] = false
	}
	if len(complete) > 1 && (c.first == nil || slices.Min(complete) < slices.Min(c.first)) {
		c.first = complete
	}
}
