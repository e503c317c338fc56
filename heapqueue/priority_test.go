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

func TestPopPrefersTheGreatestPriorityAmongDueValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[string]
		now := time.Now()
		pushPriority(t, &q, "urgent, in an hour", now.Add(time.Hour), 100)
		pushPriority(t, &q, "low, earliest", now.Add(-time.Minute), -1)
		pushPriority(t, &q, "normal, later", now.Add(-time.Second), 0)
		pushPriority(t, &q, "normal, first", now.Add(-2*time.Second), 0)
		pushPriority(t, &q, "high, first", now, 5)
		pushPriority(t, &q, "high, second", now, 5)
		for _, want := range []string{"high, first", "high, second", "normal, first"} {
			item, ok := q.TryPop()
			require.True(t, ok)
			assert.Equal(t, want, item.Value)
		}
		pushPriority(t, &q, "very high", now.Add(time.Minute), 6)
		settle(time.Minute)
		assert.Equal(t, []string{"very high", "normal, later", "low, earliest"}, values(q.PopDue()))
		item, err := q.Pop(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "urgent, in an hour", item.Value)
		assert.Equal(t, time.Hour, time.Since(now))
	})
}

func TestPoppedItemHasTheHandleAndTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[string]
		at := time.Now().Add(time.Hour)
		handle := pushPriority(t, &q, "job", at, 3)
		item, err := q.Pop(t.Context())
		require.NoError(t, err)
		assert.True(t, item.At.Equal(at))
		item.At = at
		assert.Equal(t, heapqueue.Item[string]{Value: "job", At: at, Priority: 3, Handle: handle}, item)
		assert.False(t, q.Remove(item.Handle), "the value has left the queue")
	})
}

// Due values that have been ordered by priority can still be changed.
func TestMoveRemoveAndSetPriorityOfDueValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[string]
		now := time.Now()
		handles := map[string]heapqueue.Handle[string]{}
		for i, name := range []string{"first", "moved", "removed", "raised", "last"} {
			handles[name] = pushPriority(t, &q, name, now, -i)
		}
		item, ok := q.TryPop()
		require.True(t, ok)
		require.Equal(t, "first", item.Value)
		require.True(t, q.Move(handles["moved"], now.Add(time.Hour)))
		require.True(t, q.Remove(handles["removed"]))
		require.True(t, q.SetPriority(handles["raised"], 9))
		require.True(t, q.SetPriority(handles["last"], 10))
		require.False(t, q.SetPriority(handles["first"], 1), "popped")
		require.False(t, q.SetPriority(heapqueue.Handle[string]{}, 1))
		require.Equal(t, 3, q.Len())
		assert.Equal(t, []string{"last", "raised"}, values(q.PopDue()))
		assert.Equal(t, []string{"moved"}, values(q.Close()))
	})
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
		want := []int{3, 0, 2}
		for i := 4; i < manyDue; i++ {
			want = append(want, i)
		}
		items := q.Clear()
		assert.Equal(t, want, values(items))
		for _, item := range items {
			assert.Equal(t, handles[item.Value], item.Handle)
			assert.True(t, item.At.Equal(now.Add(time.Duration(item.Value)*time.Second)))
			assert.Equal(t, item.Value%2, item.Priority)
		}
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
