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

// heapModel is a heap as a sorted slice, beside the heap that it must equal.
type heapModel struct {
	t       *testing.T
	rng     *rand.Rand
	heap    heap[int]
	waiting []modelItem // earliest first, equal instants by arrival
	taken   []modelItem
	stale   []uint64
	values  int // given out so far
	arrival int
}

type modelItem struct {
	at      int64
	arrival int
	value   int
	id      uint64
}

func TestHeapEqualsASortedSlice(t *testing.T) {
	for seed := range uint64(4) {
		m := &heapModel{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
		m.heap.order.arrival = math.MaxUint32 - 1000 // so that it wraps round
		for step := range 100_000 {
			m.step(step)
			at, ok := m.heap.first()
			m.check(ok == (len(m.waiting) > 0), "first finds a value if one waits")
			m.check(!ok || at == m.waiting[0].at, "first finds the earliest instant")
			m.check(m.heap.len() == len(m.waiting)+len(m.taken), "len counts all values")
		}
		var want []int
		for _, item := range m.waiting {
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

// step does one random operation. For a while the heap grows, then it is emptied,
// by turns.
func (m *heapModel) step(step int) {
	growing := step/4000%4 == 0
	switch op := m.rng.IntN(10); {
	case op < 2 || op < 4 && growing:
		m.add()
	case op < 4:
		m.remove()
	case op < 6:
		m.move()
	case op < 8:
		m.take()
	case len(m.taken) > 0:
		m.settle()
	}
	if len(m.stale) > 0 {
		_, ok := m.heap.find(m.stale[m.rng.IntN(len(m.stale))])
		m.check(!ok, "a stale id names nothing")
	}
}

func (m *heapModel) add() {
	item := modelItem{at: m.instant(), value: m.values}
	m.values++
	item.id = m.heap.add(item.value, item.at)
	m.file(item)
}

func (m *heapModel) move() {
	if item, ok := m.pick(&m.waiting); ok {
		slot, ok := m.heap.find(item.id)
		m.check(ok && m.heap.waiting(slot), "what waits is found and known to wait")
		item.at = m.instant()
		m.heap.place(slot, item.at)
		m.file(item)
	}
}

func (m *heapModel) remove() {
	if item, ok := m.pick(&m.waiting); ok {
		slot, ok := m.heap.find(item.id)
		m.check(ok, "what waits is found")
		m.heap.remove(slot)
		m.stale = append(m.stale, item.id)
	}
}

func (m *heapModel) take() {
	if len(m.waiting) == 0 {
		return
	}
	want := m.waiting[0]
	m.waiting = m.waiting[1:]
	slot, at := m.heap.take()
	m.check(*m.heap.value(slot) == want.value && at == want.at, "take finds the earliest value")
	m.check(m.heap.id(slot) == want.id && !m.heap.waiting(slot), "what is taken is still known")
	m.taken = append(m.taken, want)
}

// settle places a taken value again or frees it.
func (m *heapModel) settle() {
	item, _ := m.pick(&m.taken)
	slot, ok := m.heap.find(item.id)
	m.check(ok, "the id of a taken value is good")
	if m.rng.IntN(3) == 0 {
		item.at = m.instant()
		m.heap.place(slot, item.at)
		m.file(item)
		return
	}
	m.check(m.heap.free(slot) == item.value, "free returns the value")
	m.stale = append(m.stale, item.id)
}

// file puts item into the model, behind those of the same instant.
func (m *heapModel) file(item modelItem) {
	m.arrival++
	item.arrival = m.arrival
	i, _ := slices.BinarySearchFunc(m.waiting, item, func(a, b modelItem) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.arrival, b.arrival))
	})
	m.waiting = slices.Insert(m.waiting, i, item)
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

// instant is often the same, now and then extreme.
func (m *heapModel) instant() int64 {
	switch m.rng.IntN(20) {
	case 0:
		return math.MinInt64
	case 1:
		return latest
	}
	return m.rng.Int64N(200) - 100
}

func TestHeapGivesItsMemoryBack(t *testing.T) {
	var h heap[int]
	var ids []uint64
	fill := func(n int) {
		for range n {
			ids = append(ids, h.add(1, int64(len(ids))))
		}
	}
	empty := func() {
		for n := h.len(); n > 0; n-- {
			require.Equal(t, n, h.len())
			slot, _ := h.take()
			h.free(slot)
		}
	}
	fill(keep)
	empty()
	assert.Len(t, h.order.slots.table, keep, "a small heap keeps its memory")

	fill(keep + 1)
	empty()
	assert.Empty(t, h.order.slots.table)
	assert.Zero(t, cap(h.order.entries))
	assert.Empty(t, h.chunks)

	fill(keep + 1)
	for _, id := range ids[:2*keep+1] {
		_, ok := h.find(id)
		require.False(t, ok, "an id from before the shrink names a value from after it")
	}
	assert.Len(t, h.drain(), keep+1)
}

func TestSlotIsRetiredBeforeItsGenerationsRepeat(t *testing.T) {
	var h heap[int]
	h.remove(slotOf(t, &h, h.add(1, 1)))
	h.order.slots.table[0].gen = retired - 1

	last := h.add(2, 2)
	require.Zero(t, slotOf(t, &h, last))
	h.remove(0)
	next := h.add(3, 3)
	assert.EqualValues(t, 1, slotOf(t, &h, next), "slot 0 has no generation left")
	_, ok := h.find(last)
	assert.False(t, ok)

	h.remove(1)
	for i := range keep + 1 {
		h.add(i, 4)
	}
	for h.len() > 0 {
		slot, _ := h.take()
		h.free(slot)
	}
	assert.NotEmpty(t, h.order.slots.table, "slots made after a shrink would have no generation left")
}

func slotOf(t *testing.T, h *heap[int], id uint64) uint32 {
	t.Helper()
	slot, ok := h.find(id)
	require.True(t, ok)
	return slot
}
