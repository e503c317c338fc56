package heapqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func TestReadyHeapFreesItsMemory(t *testing.T) {
	var q Queue[int]
	fill := func(n int) {
		for i := range n {
			_, err := q.PushPriority(i, time.Time{}, 1+i%2)
			require.NoError(t, err)
		}
	}
	fill(10)
	require.Len(t, q.PopDue(), 10)
	assert.NotZero(t, cap(q.q.ready.entries), "a small heap keeps its memory")
	fill(minShrink + 1)
	require.Len(t, q.PopDue(), minShrink+1)
	assert.Zero(t, cap(q.q.ready.entries)+cap(q.q.ready.positions))
	fill(minShrink + 1)
	q.Peek()
	q.Clear()
	assert.Zero(t, cap(q.q.ready.entries)+cap(q.q.ready.positions))
	assert.Empty(t, q.q.items.table)
}

// Values without priorities do not pass the second heap, also after others had some.
func TestValuesWithoutPrioritiesUseOneHeap(t *testing.T) {
	var q Queue[int]
	handle, err := q.PushPriority(1, time.Time{}, 1)
	require.NoError(t, err)
	require.True(t, q.usesReady())
	require.True(t, q.SetPriority(handle, 0))
	require.False(t, q.usesReady())
	_, err = q.PushPriority(2, time.Time{}, 1)
	require.NoError(t, err)
	require.Len(t, q.PopDue(), 2)
	assert.False(t, q.usesReady())
	handle, err = q.PushPriority(3, time.Time{}, 1)
	require.NoError(t, err)
	require.True(t, q.Remove(handle))
	require.False(t, q.usesReady())
	_, err = q.PushPriority(4, time.Time{}, 1)
	require.NoError(t, err)
	require.Len(t, q.Clear(), 1)
	assert.False(t, q.usesReady())
}
