package heapqueue

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddInstantStaysInTheRangeOfInstants(t *testing.T) {
	const most, least = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, tc := range []struct {
		now, d time.Duration
		want   int64
	}{
		{5, 7, 12},
		{5, 0, 5},
		{5, -7, -2},
		{0, most, maxInstant},
		{0, most - 1, maxInstant},
		{1, most - 1, maxInstant},
		{1, most - 2, maxInstant},
		{1, most - 3, maxInstant - 1},
		{most, most, maxInstant},
		{0, least, math.MinInt64},
		{-1, least, math.MinInt64},
		{1, least, math.MinInt64 + 1},
	} {
		assert.Equal(t, tc.want, addInstant(tc.now, tc.d), "%d after %d", tc.d, tc.now)
	}
}

func TestInstantOfBothKindsOfTime(t *testing.T) {
	now := time.Now()
	var q delayQueue[int]
	q.base = now.Add(-time.Minute)
	at := now.Add(time.Hour)
	want := int64(time.Hour + time.Minute)
	assert.Equal(t, want, q.instant(now, at))
	assert.Equal(t, want, q.instant(now, at.Round(0)), "without a monotonic clock reading")
	assert.Equal(t, want, q.instant(now.Add(time.Second), at), "read at another time")
	assert.Less(t, q.instant(now, time.Time{}), q.instant(now, time.Unix(0, 0)), "the zero Time is in the past")
	assert.Equal(t, int64(maxInstant), q.instant(now, time.Unix(1<<60, 0)), "an instant out of range is limited")
}

func TestFreeWaitersAreBounded(t *testing.T) {
	var l waiterList
	for range 2 {
		var joined []*waiter
		for range 10 * maxFreeWaiters {
			joined = append(joined, l.add())
		}
		for _, w := range joined {
			l.remove(w)
		}
		spares := 0
		for w := l.free; w != nil; w = w.next {
			spares++
		}
		assert.Equal(t, maxFreeWaiters, spares)
		assert.Equal(t, maxFreeWaiters, l.freeLen)
	}
}

// A waiter unlocks the queue before it receives, so a signal can come earlier.
func TestASignalIsKeptUntilItIsReceived(t *testing.T) {
	var l waiterList
	w := l.add()
	w.signal()
	w.signal()
	select {
	case <-w.wake:
	default:
		t.Fatal("no token")
	}
	w.signal()
	l.remove(w)
	again := l.add()
	require.Same(t, w, again, "the waiter is reused")
	require.Empty(t, again.wake, "the token was dropped")
}

// Values of one instant stay in order when more than 2^32 values are pushed between them.
func TestSequenceNumbersDoNotWrap(t *testing.T) {
	for _, between := range []uint64{1, 1 << 31, 1<<32 - 3, 1 << 32, 1 << 40} {
		var h itemHeap[int]
		for i := range 100 {
			h.add(i, 1)
			h.seq += between
		}
		for i := range 50 {
			slot := h.pop().slot
			require.Equal(t, i, h.free(slot))
		}
		want := make([]int, 50)
		for i := range want {
			want[i] = 50 + i
		}
		assert.Equal(t, want, h.drain())
	}
}
