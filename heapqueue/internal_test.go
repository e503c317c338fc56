package heapqueue

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAfterHoldsTheRangeOfTheClock(t *testing.T) {
	const most, least = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, tc := range []struct {
		now, d time.Duration
		want   int64
	}{
		{5, 7, 12},
		{5, 0, 5},
		{5, -7, -2},
		{0, most, latest},
		{0, most - 1, latest},
		{1, most - 1, latest},
		{1, most - 2, latest},
		{1, most - 3, latest - 1},
		{most, most, latest},
		{0, least, math.MinInt64},
		{-1, least, math.MinInt64},
		{1, least, math.MinInt64 + 1},
	} {
		assert.Equal(t, tc.want, after(tc.now, tc.d), "%d after %d", tc.d, tc.now)
	}
}

func TestInstantIsReadOffItsOwnClock(t *testing.T) {
	now := time.Now()
	var q Queue[int]
	q.base = now.Add(-time.Minute)
	at := now.Add(time.Hour)
	want := int64(time.Hour + time.Minute)
	assert.Equal(t, want, q.instant(now, at))
	assert.Equal(t, want, q.instant(now, at.Round(0)), "without a monotonic reading")
	assert.Equal(t, want, q.instant(now.Add(time.Second), at), "whenever it is read")
	assert.Less(t, q.instant(now, time.Time{}), q.instant(now, time.Unix(0, 0)), "the zero Time is long ago")
	assert.Equal(t, int64(latest), q.instant(now, time.Unix(1<<60, 0)), "and this one far away, but not never")
}

func TestAWaiterThatJoinsHasNoSignalOfItsPredecessor(t *testing.T) {
	var l line
	w := l.join()
	w.signal()
	w.signal()
	l.leave(w)
	require.Same(t, w, l.join(), "it is used again")
	assert.Empty(t, w.wake)
}

func TestABurstOfWaitersLeavesFewBehind(t *testing.T) {
	var l line
	for range 2 {
		var joined []*waiter
		for range 10 * maxSpares {
			joined = append(joined, l.join())
		}
		for _, w := range joined {
			l.leave(w)
		}
		spares := 0
		for w := l.spare; w != nil; w = w.next {
			spares++
		}
		assert.Equal(t, maxSpares, spares)
		assert.Equal(t, maxSpares, l.spares)
	}
}

// A waiter that is told before it listens hears of it all the same: it lets go of
// the lock in between.
func TestASignalWaitsForItsWaiter(t *testing.T) {
	var l line
	w := l.join()
	w.signal()
	w.signal()
	select {
	case <-w.wake:
	default:
		t.Fatal("the signal is lost")
	}
	w.signal()
	l.leave(w)
	again := l.join()
	require.Same(t, w, again, "its memory is used again")
	require.Empty(t, again.wake, "and what it did not heed is gone")
}
