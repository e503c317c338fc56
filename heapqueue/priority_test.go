package heapqueue_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

func pushPriority[T any](t *testing.T, q *heapqueue.Queue[T], v T, at time.Time, priority int) heapqueue.Handle[T] {
	t.Helper()
	handle, err := q.PushPriority(v, at, priority)
	require.NoError(t, err)
	return handle
}

// A call that orders the due values by priority must not hide them from waiting callers.
func TestWaitersGetValuesThatOtherCallsHaveOrdered(t *testing.T) {
	for name, look := range map[string]func(q *heapqueue.Queue[int]){
		"Peek": func(q *heapqueue.Queue[int]) { q.Peek() },
		"All":  func(q *heapqueue.Queue[int]) { assert.NotEmpty(t, slices.Collect(q.All())) },
		"TryPop": func(q *heapqueue.Queue[int]) {
			_, ok := q.TryPop()
			assert.True(t, ok)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // the waiters and look race for the lock
				synctest.Test(t, func(t *testing.T) {
					const callers = 5
					var q heapqueue.Queue[int]
					var waiting []*atomic.Pointer[popped]
					for range callers {
						waiting = append(waiting, popLater(t.Context(), &q))
					}
					for i := range callers + 1 {
						pushPriority(t, &q, i, time.Now().Add(time.Minute), i)
					}
					time.Sleep(time.Minute)
					look(&q)
					settle(0)
					for i, p := range waiting {
						require.NotNil(t, p.Load(), "caller %d", i)
						assert.Equal(t, time.Minute, p.Load().after)
					}
					q.Close()
				})
			}
		})
	}
}

func TestClearReturnsAllValuesAndLeavesTheQueueOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		assert.Nil(t, q.Clear())
		now := time.Now()
		var handles []heapqueue.Handle[int]
		for i := range manyDue {
			handles = append(handles, pushPriority(t, &q, i, now.Add(time.Duration(i)*time.Second), i%2))
		}
		settle(3 * time.Second)
		item, ok := q.TryPop()
		require.True(t, ok)
		require.Equal(t, 1, item.Value)
		items := q.Clear()
		assert.Len(t, items, manyDue-1)
		assert.Equal(t, []int{3, 0, 2}, values(items[:3]), "due values by priority")
		assert.Zero(t, q.Len())

		p := popLater(t.Context(), &q)
		settle(time.Hour)
		require.Nil(t, p.Load(), "nothing is left")
		push(t, &q, 7, time.Now())
		settle(0)
		assert.Equal(t, 7, p.Load().value)
		for _, handle := range handles {
			assert.False(t, q.Remove(handle))
		}
	})
}

func TestAllIsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		at := time.Now().Add(time.Hour)
		for i := range 5 {
			push(t, &q, i, at)
		}
		all := q.All()
		for range 2 {
			var seen []int
			for item := range all {
				seen = append(seen, item.Value)
				q.Remove(item.Handle)
				push(t, &q, item.Value, at)
			}
			assert.Equal(t, []int{0, 1, 2, 3, 4}, seen)
		}
		for item := range all {
			require.Zero(t, item.Value)
			break
		}
		q.Close()
		assert.Empty(t, slices.Collect(all))
		_, err := q.PushPriority(1, at, 1)
		assert.ErrorIs(t, err, schedule.ErrClosed)
	})
}
