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
		push(t, &q, 2, time.Now().Add(time.Second))
		p := popLater(t.Context(), &q)
		_, ok = q.TryPop()
		assert.False(t, ok, "early")
		time.Sleep(time.Second) // the leader and TryPop race
		v, ok := q.TryPop()
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
