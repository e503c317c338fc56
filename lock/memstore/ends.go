package memstore

import (
	"time"
)

// ends holds the leases of a key in the order in which they end. It is a treap (Seidel
// and Aragon, 1996): a search tree by end that is also a heap by random priority. Its
// depth is logarithmic, so each operation visits few holders.
type ends struct {
	root  *holder
	first *holder // the holder whose lease ends first, or nil
}

// treeNode holds the links of a holder in ends.
type treeNode struct {
	left, right *holder
	priority    uint32
	size        int // number of permits of the holders in this subtree
}

// endsBefore orders holders by the ends of their leases, and by token if the ends are
// equal.
func (h *holder) endsBefore(other *holder) bool {
	if c := h.until.Compare(other.until); c != 0 {
		return c < 0
	}
	return h.token < other.token
}

func (h *holder) resize() {
	h.size = h.permits
	if h.left != nil {
		h.size += h.left.size
	}
	if h.right != nil {
		h.size += h.right.size
	}
}

// insert adds a holder that is in no tree.
func (e *ends) insert(h *holder) {
	before, after := split(e.root, h)
	h.left, h.right, h.size = nil, nil, h.permits
	e.root = join(join(before, h), after)
	if e.first == nil || h.endsBefore(e.first) {
		e.first = h
	}
}

func (e *ends) remove(h *holder) {
	e.root = removeNode(e.root, h)
	if e.first == h {
		e.first = e.root
		for e.first != nil && e.first.left != nil {
			e.first = e.first.left
		}
	}
}

// move changes the end of a lease.
func (e *ends) move(h *holder, until time.Time) {
	e.remove(h)
	h.until = until
	e.insert(h)
}

// last returns the end of the lease that ends last, or the zero Time if there is none.
func (e *ends) last() (end time.Time) {
	for h := e.root; h != nil; h = h.right {
		end = h.until
	}
	return end
}

// permits returns the number of permits of all leases.
func (e *ends) permits() int {
	if e.root == nil {
		return 0
	}
	return e.root.size
}

// nth returns the end of the lease with the n-th permit, from 0, in the order of the ends.
func (e *ends) nth(n int) time.Time {
	h := e.root
	for {
		before := 0
		if h.left != nil {
			before = h.left.size
		}
		switch {
		case n < before:
			h = h.left
		case n >= before+h.permits:
			h, n = h.right, n-before-h.permits
		default:
			return h.until
		}
	}
}

// split splits a tree into the holders that end before h and all others.
func split(tree, h *holder) (before, after *holder) {
	switch {
	case tree == nil:
		return nil, nil
	case tree.endsBefore(h):
		tree.right, after = split(tree.right, h)
		tree.resize()
		return tree, after
	}
	before, tree.left = split(tree.left, h)
	tree.resize()
	return before, tree
}

// join merges two trees, where all of the first end before all of the second.
func join(before, after *holder) *holder {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.priority > after.priority:
		before.right = join(before.right, after)
		before.resize()
		return before
	}
	after.left = join(before, after.left)
	after.resize()
	return after
}

// removeNode returns a tree without h, which must be in it.
func removeNode(tree, h *holder) *holder {
	switch {
	case tree == h:
		return join(h.left, h.right)
	case h.endsBefore(tree):
		tree.left = removeNode(tree.left, h)
	default:
		tree.right = removeNode(tree.right, h)
	}
	tree.resize()
	return tree
}
