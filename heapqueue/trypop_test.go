package heapqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/heapqueue"
)

func TestTryPopReturnsOnlyDueValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q heapqueue.Queue[int]
		_, ok := q.TryPop()
		assert.False(t, ok, "empty")
		for _, i := range []int{2, 1} {
			push(t, &q, i, time.Now().Add(time.Duration(i)*time.Second))
		}
		time.Sleep(time.Second - 1)
		_, ok = q.TryPop()
		assert.False(t, ok, "early")
		time.Sleep(time.Nanosecond)
		v, ok := q.TryPop()
		assert.True(t, ok)
		assert.Equal(t, 1, v.Value)
		_, ok = q.TryPop()
		assert.False(t, ok)
		assert.Equal(t, 1, q.Len())

		p := popLater(t.Context(), &q)
		time.Sleep(time.Second) // the leader and TryPop race
		v, ok = q.TryPop()
		settle(time.Hour)
		if ok {
			assert.Equal(t, 2, v.Value)
			assert.Nil(t, p.Load(), "no value is left")
		} else {
			assert.Equal(t, 2, p.Load().value)
		}
		push(t, &q, 3, time.Now())
		push(t, &q, 4, time.Now())
		q.Close()
		_, ok = q.TryPop()
		assert.False(t, ok, "closed")
	})
}
