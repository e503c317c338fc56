package heapqueue

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heapModel applies each operation to an itemHeap and to a sorted slice and compares them.
type heapModel struct {
	t      *testing.T
	rng    *rand.Rand
	heap   itemHeap[int]
	queued []modelItem // earliest first, equal instants by seq
	popped []modelItem
	stale  []uint64
	values int // given out so far
	seq    int
}

type modelItem struct {
	at    int64
	seq   int
	value int
	id    uint64
}

func TestHeapEqualsASortedSlice(t *testing.T) {
	for seed := range uint64(4) {
		m := &heapModel{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
		m.heap.seq = math.MaxUint32 - 1000 // so that it exceeds 32 bits
		for step := range 25_000 {
			m.step(step)
			e, ok := m.heap.first()
			m.check(ok == (len(m.queued) > 0), "first returns a value if one is queued")
			m.check(!ok || e.at == m.queued[0].at, "first returns the earliest instant")
			m.check(m.heap.len() == len(m.queued)+len(m.popped), "len counts queued and popped values")
		}
		var want []int
		for _, item := range m.queued {
			want = append(want, item.value)
		}
		assert.Equal(t, want, m.heap.drain())
		assert.Zero(t, m.heap.len())
	}
}

// check is require.True without its cost; it is called millions of times.
func (m *heapModel) check(ok bool, what string) {
	if !ok {
		require.FailNow(m.t, what)
	}
}

// step does one random operation. Phases in which the heap grows alternate with phases
// in which it shrinks.
func (m *heapModel) step(step int) {
	growing := step/4000%4 == 0
	if m.rng.IntN(4) == 0 {
		m.heap.collect(m.instant())
	}
	switch op := m.rng.IntN(10); {
	case op < 2 || op < 4 && growing:
		m.add()
	case op < 4:
		m.remove()
	case op < 6:
		m.move()
	case op < 8:
		m.pop()
	case len(m.popped) > 0:
		m.settle()
	}
	if len(m.stale) > 0 {
		_, ok := m.heap.find(m.stale[m.rng.IntN(len(m.stale))])
		m.check(!ok, "a stale id is not found")
	}
}

func (m *heapModel) add() {
	item := modelItem{at: m.instant(), value: m.values}
	m.values++
	item.id = m.heap.add(item.value, item.at)
	m.file(item)
}

func (m *heapModel) move() {
	if item, ok := m.pick(&m.queued); ok {
		slot, ok := m.heap.find(item.id)
		m.check(ok && m.heap.queued(slot), "a queued value is found")
		item.at = m.instant()
		m.heap.move(slot, item.at)
		m.file(item)
	}
}

func (m *heapModel) remove() {
	if item, ok := m.pick(&m.queued); ok {
		slot, ok := m.heap.find(item.id)
		m.check(ok, "a queued value is found")
		m.heap.remove(slot)
		m.stale = append(m.stale, item.id)
	}
}

func (m *heapModel) pop() {
	if len(m.queued) == 0 {
		return
	}
	want := m.queued[0]
	m.queued = m.queued[1:]
	e := m.heap.pop()
	slot, at := e.slot, e.at
	m.check(*m.heap.value(slot) == want.value && at == want.at, "pop returns the earliest value")
	m.check(m.heap.id(slot) == want.id && !m.heap.queued(slot), "a popped value keeps its id")
	m.popped = append(m.popped, want)
}

// settle pushes a popped value again or frees it.
func (m *heapModel) settle() {
	item, _ := m.pick(&m.popped)
	slot, ok := m.heap.find(item.id)
	m.check(ok, "a popped value is found")
	if m.rng.IntN(3) == 0 {
		item.at = m.instant()
		m.heap.push(slot, item.at)
		m.file(item)
		return
	}
	m.check(m.heap.free(slot) == item.value, "free returns the value")
	m.stale = append(m.stale, item.id)
}

// file inserts item into the model, after the items of the same instant.
func (m *heapModel) file(item modelItem) {
	m.seq++
	item.seq = m.seq
	i, _ := slices.BinarySearchFunc(m.queued, item, func(a, b modelItem) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	})
	m.queued = slices.Insert(m.queued, i, item)
}

func (m *heapModel) pick(from *[]modelItem) (modelItem, bool) {
	if len(*from) == 0 {
		return modelItem{}, false
	}
	i := m.rng.IntN(len(*from))
	item := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return item, true
}

// instant returns one of few instants, and sometimes an extreme one.
func (m *heapModel) instant() int64 {
	switch m.rng.IntN(20) {
	case 0:
		return math.MinInt64
	case 1:
		return maxInstant
	}
	return m.rng.Int64N(200) - 100
}

func TestAnEmptyHeapFreesItsMemory(t *testing.T) {
	var h itemHeap[int]
	var ids []uint64
	fill := func(n int) {
		for range n {
			ids = append(ids, h.add(1, int64(len(ids))))
		}
	}
	empty := func() {
		for n := h.len(); n > 0; n-- {
			require.Equal(t, n, h.len())
			slot := h.pop().slot
			h.free(slot)
		}
	}
	fill(minShrink)
	empty()
	assert.Len(t, h.table, minShrink, "a small heap keeps its slots")

	fill(minShrink + 1)
	empty()
	assert.Empty(t, h.table)
	assert.Zero(t, cap(h.entries))
	assert.Empty(t, h.chunks)

	fill(minShrink + 1)
	for _, id := range ids[:2*minShrink+1] {
		_, ok := h.find(id)
		require.False(t, ok, "an id from before a shrink is found")
	}
	assert.Len(t, h.drain(), minShrink+1)
}

func TestASlotWithoutGenerationsLeftIsNotReused(t *testing.T) {
	var h itemHeap[int]
	h.remove(slotOf(t, &h, h.add(1, 1)))
	h.table[0].generation = maxGeneration - 1

	last := h.add(2, 2)
	require.Zero(t, slotOf(t, &h, last))
	h.remove(0)
	next := h.add(3, 3)
	assert.EqualValues(t, 1, slotOf(t, &h, next), "slot 0 is not reused")
	_, ok := h.find(last)
	assert.False(t, ok)
}

// After 2^31 uses of a slot, a shrink numbers later slots anew, because too few
// generations are left.
func TestShrinkAfterManyUsesOfASlot(t *testing.T) {
	for _, gen := range []uint32{highGeneration - 1, highGeneration, maxGeneration - 1} {
		var h itemHeap[int]
		h.remove(slotOf(t, &h, h.add(1, 1)))
		h.table[0].generation = gen
		seen := map[uint64]bool{}
		for range 3 {
			for i := range minShrink + 1 {
				id := h.add(i, 4)
				require.False(t, seen[id], "the id was used before")
				seen[id] = true
			}
			for h.len() > 0 {
				slot := h.pop().slot
				h.free(slot)
			}
			require.Empty(t, h.table)
			require.Empty(t, h.chunks)
			for id := range seen {
				_, ok := h.find(id)
				require.False(t, ok)
			}
		}
		id := h.add(7, 1)
		assert.Less(t, uint32(id>>32), uint32(highGeneration)+4, "slots have generations left")
		assert.Equal(t, 7, h.free(slotOf(t, &h, id)))
	}
}

// Without slot numbers left, the memory stays allocated and ids stay unique.
func TestNoShrinkWithoutSlotNumbersLeft(t *testing.T) {
	var h itemHeap[int]
	h.firstNumber = maxFirstNumber
	last := h.add(1, 1)
	h.table[slotOf(t, &h, last)].generation = maxGeneration - 1
	for i := range minShrink {
		h.add(i, 4)
	}
	for h.len() > 0 {
		slot := h.pop().slot
		h.free(slot)
	}
	assert.Len(t, h.table, minShrink+1)
	_, ok := h.find(last)
	assert.False(t, ok)
	for i := range minShrink + 1 { // the maxGeneration slot is left out
		slotOf(t, &h, h.add(i, 4))
	}
	assert.Len(t, h.table, minShrink+2)
}

func slotOf(t *testing.T, h *itemHeap[int], id uint64) uint32 {
	t.Helper()
	slot, ok := h.find(id)
	require.True(t, ok)
	return slot
}
