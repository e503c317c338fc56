// This file is about the strongly connected components of a graph.

package waitgraph

import "slices"

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
