package memstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaves returns the number of leaves of a table, and the number of entries of the
// largest.
func (b *branch[V]) leaves() (n, most int) {
	switch {
	case b == nil:
		return 0, 0
	case b.leaf != nil:
		return 1, len(b.leaf)
	}
	n1, most1 := b.child[0].leaves()
	n2, most2 := b.child[1].leaves()
	return n1 + n2, max(most1, most2)
}

func TestATableMatchesAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var table table[int]
	want := map[string]int{}
	for step, grows := range []bool{true, false, true, false} {
		for range 40_000 {
			key := fmt.Sprint(rng.IntN(20_000))
			if rng.IntN(10) == 0 == grows {
				table.remove(key)
				delete(want, key)
			} else {
				table.put(key, step)
				want[key] = step
			}
		}
		require.Equal(t, len(want), table.n)
		for i := range 20_000 {
			key := fmt.Sprint(i)
			v, ok := table.get(key)
			w, there := want[key]
			require.Equal(t, there, ok)
			require.Equal(t, w, v)
		}
		n, most := table.root.leaves()
		assert.LessOrEqual(t, most, maxLeaf)
		assert.LessOrEqual(t, n, 1+2*len(want)/(minPair/4))
	}
	for key := range want {
		table.remove(key)
	}
	table.remove("")
	n, _ := table.root.leaves()
	assert.Equal(t, 1, n)
	assert.Zero(t, table.n)
}

// A table shrinks to one leaf even if its removed entries are spread evenly.
func TestATableShrinks(t *testing.T) {
	var table table[int]
	const n = 100_000
	for i := range n {
		table.put(fmt.Sprint(i), i)
	}
	leaves, _ := table.root.leaves()
	assert.Greater(t, leaves, n/maxLeaf)
	for i := range n {
		if i%1000 > 0 {
			table.remove(fmt.Sprint(i))
		}
	}
	leaves, _ = table.root.leaves()
	assert.Equal(t, 1, leaves)
	assert.Equal(t, n/1000, table.n)
}

// A scan finds each entry exactly once while nothing changes, and each lasting entry at
// least once while others are added and removed.
func TestScanOfATable(t *testing.T) {
	for _, n := range []int{0, 1, maxLeaf, 50_000} {
		for _, changes := range []bool{false, true} {
			var table table[int]
			for i := range n {
				table.put(fmt.Sprint(i), i)
			}
			var found []int
			for position, more := uint64(0), true; more; {
				found, position, more = table.scan(position, found)
				if changes {
					for range 100 {
						table.put(fmt.Sprint("other ", rand.IntN(2*n+1)), -1)
						table.remove(fmt.Sprint("other ", rand.IntN(2*n+1)))
					}
				}
			}
			found = slices.DeleteFunc(found, func(i int) bool { return i < 0 })
			slices.Sort(found)
			found = slices.Compact(found)
			assert.Len(t, found, n)
		}
	}
	var table table[int]
	for i := range 10_000 {
		table.put(fmt.Sprint(i), i)
	}
	var found []int
	for position, more := uint64(0), true; more; {
		found, position, more = table.scan(position, found)
	}
	assert.Len(t, found, 10_000)
}

func (h *holder) depth() int {
	if h == nil {
		return 0
	}
	return 1 + max(h.left.depth(), h.right.depth())
}

func TestEndsMatchASortedSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	instant := func() time.Time { return start.Add(time.Duration(rng.IntN(500)) * time.Second) }
	var hs holders
	var want []*holder
	for step := range 5000 {
		switch n := rng.IntN(10); {
		case n < 5 || len(want) == 0:
			h := &holder{owner: fmt.Sprint(step), token: uint64(step), until: instant(), permits: 1}
			hs.add(h)
			want = append(want, h)
		case n < 8:
			hs.ends.move(want[rng.IntN(len(want))], instant())
		default:
			i := rng.IntN(len(want))
			hs.remove(want[i])
			want = slices.Delete(want, i, i+1)
		}
		if len(want) == 0 {
			require.Nil(t, hs.ends.first)
			require.Zero(t, hs.ends.last())
			continue
		}
		slices.SortFunc(want, func(a, b *holder) int {
			if a.endsBefore(b) {
				return -1
			}
			return 1
		})
		require.Same(t, want[0], hs.ends.first)
		require.Equal(t, want[len(want)-1].until, hs.ends.last())
		i := rng.IntN(len(want))
		require.Equal(t, want[i].until, hs.ends.nth(i))
		require.Equal(t, len(want), hs.ends.root.size)
	}
	require.Greater(t, len(want), 500)
	assert.Less(t, hs.ends.root.depth(), 40, "the depth is logarithmic")
	for _, h := range want {
		require.Same(t, h, hs.find(h.owner))
		hs.remove(h)
	}
	assert.Zero(t, hs, "holders keeps nothing")
}
