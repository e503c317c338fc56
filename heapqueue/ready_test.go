package heapqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
