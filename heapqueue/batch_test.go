package heapqueue_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
)

// manyDue is the number of due values in these tests. It is larger than a batch.
const manyDue = 200

// Values in a batch can be removed and moved, and an earlier value goes before them.
func TestRemoveAndMoveInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		start := time.Now()
		var items []heapqueue.Handle[int]
		for i := range manyDue {
			items = append(items, push(t, &q, i, start.Add(time.Duration(i))))
		}
		settle(time.Second)
		pop := func() int {
			item, err := q.Pop(t.Context())
			require.NoError(t, err)
			return item.Value
		}
		require.Equal(t, 0, pop())
		require.True(t, q.Remove(items[1]), "the next value of the batch")
		require.True(t, q.Remove(items[3]))
		require.False(t, q.Remove(items[3]), "removed before")
		require.True(t, q.Move(items[4], start.Add(time.Hour)))
		require.True(t, q.Move(items[5], start))
		push(t, &q, manyDue, start.Add(-time.Second))
		push(t, &q, manyDue+1, start.Add(6)) // the instant of a value in the batch

		assert.Equal(t, []int{manyDue, 5, 2, 6, manyDue + 1, 7}, []int{pop(), pop(), pop(), pop(), pop(), pop()})
		for i := 8; i < manyDue; i++ {
			require.Equal(t, i, pop())
		}
		_, ok := q.TryPop()
		assert.False(t, ok, "the moved value is not due")
		assert.Equal(t, []int{4}, values(q.Close()))
	})
}

// A Stop that returns true prevents the Run, also of a timer whose batch is running.
func TestStopAndResetOfDueTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		var timers []schedule.Timer
		var ran []int
		for i := range manyDue {
			timers = append(timers, at(t, s, time.Second, func(schedule.Timer) {
				ran = append(ran, i)
				if i > 0 {
					return
				}
				for k := 1; k < manyDue; k += 2 {
					assert.True(t, timers[k].Stop())
					assert.False(t, timers[k].Stop())
				}
				assert.True(t, timers[2].Reset(0))
				assert.True(t, timers[4].Reset(time.Hour))
			}))
		}
		s.Stats() // takes the lock, so the task sees timers
		settle(2 * time.Hour)
		want := []int{0}
		for i := 6; i < manyDue; i += 2 {
			want = append(want, i)
		}
		assert.Equal(t, append(want, 2, 4), ran)
	})
}

func TestCloseReturnsTheRestOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil)
		var want []schedule.Task
		for i := range manyDue {
			task := &namedTask{strconv.Itoa(i), func(schedule.Timer) { time.Sleep(time.Minute) }}
			_, err := s.Schedule(time.Second, task)
			require.NoError(t, err)
			want = append(want, task)
		}
		settle(time.Second + 3*time.Minute)
		assert.Equal(t, want[4:], s.Close())
	})
}
