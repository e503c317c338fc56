package memstore

import (
	"hash/maphash"
)

// table is a map with string keys that releases memory when entries are removed; a Go map
// keeps the memory of its greatest size. It is a trie over the bits of a hash, with Go
// maps as leaves. A full leaf is split, and two small leaves are merged, so the time of
// each operation is bounded. The zero table is empty.
type table[V any] struct {
	root *branch[V] // nil before the first entry
	n    int
}

// branch is a node of the trie: a leaf with a map, or an inner node with two children.
type branch[V any] struct {
	child [2]*branch[V]
	leaf  map[string]V
}

const (
	maxLeaf  = 512 // most entries of a leaf
	minPair  = 128 // two sibling leaves with fewer entries are merged
	maxDepth = 60  // depth at which leaves are not split, because the hash has no more bits
)

var seed = maphash.MakeSeed()

// find returns the leaf for a hash and its depth. The leaf is nil if the table has no
// root.
func (t *table[V]) find(hash uint64) (b *branch[V], depth int) {
	b = t.root
	for b != nil && b.leaf == nil {
		b = b.child[bit(hash, depth)]
		depth++
	}
	return b, depth
}

func bit(hash uint64, depth int) uint64 { return hash >> (63 - depth) & 1 }

func (t *table[V]) get(key string) (v V, ok bool) {
	if t.root == nil {
		return v, false
	}
	b, _ := t.find(maphash.String(seed, key))
	v, ok = b.leaf[key]
	return v, ok
}

func (t *table[V]) put(key string, v V) {
	if t.root == nil {
		t.root = &branch[V]{leaf: make(map[string]V)}
	}
	b, depth := t.find(maphash.String(seed, key))
	before := len(b.leaf)
	b.leaf[key] = v
	t.n += len(b.leaf) - before
	if len(b.leaf) > maxLeaf && depth < maxDepth {
		b.split(depth)
	}
}

func (b *branch[V]) split(depth int) {
	for i := range b.child {
		b.child[i] = &branch[V]{leaf: make(map[string]V)}
	}
	for key, v := range b.leaf {
		b.child[bit(maphash.String(seed, key), depth)].leaf[key] = v
	}
	b.leaf = nil
}

func (t *table[V]) remove(key string) {
	if t.root == nil {
		return
	}
	t.n -= t.root.remove(key, maphash.String(seed, key), 0)
}

// remove returns the number of entries that it has removed.
func (b *branch[V]) remove(key string, hash uint64, depth int) int {
	if b.leaf != nil {
		before := len(b.leaf)
		delete(b.leaf, key)
		return before - len(b.leaf)
	}
	removed := b.child[bit(hash, depth)].remove(key, hash, depth+1)
	low, high := b.child[0], b.child[1]
	if low.leaf == nil || high.leaf == nil || len(low.leaf)+len(high.leaf) >= minPair {
		return removed
	}
	b.leaf = make(map[string]V, len(low.leaf)+len(high.leaf))
	for _, child := range b.child {
		for key, v := range child.leaf {
			b.leaf[key] = v
		}
	}
	b.child = [2]*branch[V]{}
	return removed
}

// scan appends the values of one leaf to values. The cursor of the first call is 0; scan
// returns the cursor of the next call, and more is false after the last leaf. A scan
// returns every entry that is present from its start to its end, whatever changes
// meanwhile.
func (t *table[V]) scan(from uint64, values []V) (_ []V, next uint64, more bool) {
	b, depth := t.find(from)
	if b == nil {
		return values, 0, false
	}
	for _, v := range b.leaf {
		values = append(values, v)
	}
	if depth == 0 {
		return values, 0, false
	}
	next = (from>>(64-depth) + 1) << (64 - depth)
	return values, next, next != 0
}
