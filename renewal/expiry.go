// The entries in buckets, by the instant at which the monitor ends them.

package renewal

import (
	"cmp"
	"slices"
)

// expiries holds the entries that have not ended in buckets, by the instant at which the
// monitor ends them. The watchdog's mu guards it.
//
// A renewal moves an entry to a later bucket. While the engine is on time, the first
// bucket is therefore empty when its instant comes, and it is dropped. So the monitor
// never visits healthy entries, whatever their TTLs.
type expiries[L any] struct {
	buckets []*bucket[L] // in order of their instants
	recent  *bucket[L]   // the bucket of the last entry that was added
}

// bucket is the entries that the monitor ends at one instant.
type bucket[L any] struct {
	at   int64    // on the monotonic clock
	root Entry[L] // the sentinel of the ring of entries
}

// add puts an entry into the bucket for its deadline and returns the bucket's instant: the first
// multiple of the width after the grace.
func (x *expiries[L]) add(e *Entry[L]) int64 {
	b := x.recent
	if at := ((e.mono.Load() + int64(e.grace)) | e.bucketMask) + 1; b == nil || b.at != at {
		i, found := len(x.buckets), false
		if i > 0 && at <= x.buckets[i-1].at { // rare: most deadlines are later than all before
			i, found = slices.BinarySearchFunc(x.buckets, at, func(b *bucket[L], at int64) int { return cmp.Compare(b.at, at) })
		}
		if found {
			b = x.buckets[i]
		} else {
			b = &bucket[L]{at: at}
			b.root.expPrev, b.root.expNext = &b.root, &b.root
			x.buckets = slices.Insert(x.buckets, i, b)
		}
		x.recent = b
	}
	first := b.root.expNext
	e.expPrev, e.expNext = &b.root, first
	b.root.expNext, first.expPrev = e, e
	return b.at
}

// remove takes an entry out of its bucket.
func (*expiries[L]) remove(e *Entry[L]) {
	e.expPrev.expNext, e.expNext.expPrev = e.expNext, e.expPrev
	e.expPrev, e.expNext = nil, nil
}

// first drops the empty buckets at the front and returns the first bucket with entries,
// or nil if there is none.
func (x *expiries[L]) first() *bucket[L] {
	for len(x.buckets) > 0 {
		b := x.buckets[0]
		if b.head() != nil {
			return b
		}
		x.buckets[0] = nil // slices.Insert allocates a new array when this one is used up
		x.buckets = x.buckets[1:]
		if x.recent == b {
			x.recent = nil
		}
	}
	*x = expiries[L]{}
	return nil
}

// head returns an entry of the bucket, or nil if it is empty.
func (b *bucket[L]) head() *Entry[L] {
	if e := b.root.expNext; e != &b.root {
		return e
	}
	return nil
}

// takeAll moves all buckets of another set to the end of this one. The receiver is then
// only read, never added to.
func (x *expiries[L]) takeAll(other *expiries[L]) {
	x.buckets = append(x.buckets, other.buckets...)
	*other = expiries[L]{}
}
