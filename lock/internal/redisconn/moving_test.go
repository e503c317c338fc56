package redisconn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

const errTryAgain = serverError("TRYAGAIN Multiple keys request during rehashing of slot")

// offlineCluster returns a cluster whose single node gets no requests.
func offlineCluster(t *testing.T, slot uint16) *cluster {
	t.Helper()
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, redisnode.NewCalls())
	c.setMaster(slot, c.node("127.0.0.1:1", false))
	t.Cleanup(func() {
		c.calls.Cancel()
		_ = c.close() // some tests have closed it already
	})
	return c
}

// Redirections of many slots at a time are all kept, and change nothing for a reader of the table before.
func TestRedirectionsAtTheSameTimeAreKept(t *testing.T) {
	t.Parallel()
	const slots = 64
	c := offlineCluster(t, slots)
	before, n := c.slots.Load(), c.node("127.0.0.1:2", false)
	var callers sync.WaitGroup
	for slot := range uint16(slots) {
		callers.Go(func() { assert.Nil(t, c.setMaster(slot, n)) })
	}
	callers.Wait()
	for slot := range slots {
		assert.Same(t, n, c.slots.Load()[slot], "slot %d", slot)
		assert.Nil(t, before[slot], "slot %d", slot)
	}
	assert.NotNil(t, c.slots.Load()[slots], "the slot that had a master")
}

// While the keys of a script are on two nodes, a call makes few tries. It succeeds when the slot has moved.
func TestACallForASlotThatMovesMakesFewTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot = 7
		c := offlineCluster(t, slot)
		tries, began := 0, time.Now()
		moves := 4 * time.Second // after the end of the first call
		try := func(*Node, bool) (any, error) {
			if tries++; time.Since(began) >= moves {
				return "moved", nil
			}
			return nil, errTryAgain
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.run(ctx, slot, try)
		require.ErrorIs(t, err, errTryAgain)
		assert.LessOrEqual(t, tries, 10)
		assert.GreaterOrEqual(t, tries, 9)
		reply, err := c.run(t.Context(), slot, try)
		require.NoError(t, err)
		assert.Equal(t, "moved", reply)
	})
}

// Close ends the calls that wait.
func TestCloseEndsTheWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot = 7
		c := offlineCluster(t, slot)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.run(t.Context(), slot, func(*Node, bool) (any, error) { return nil, errTryAgain })
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		time.Sleep(10 * time.Second)
		closed := time.Now()
		c.calls.Cancel()
		require.NoError(t, c.close())
		wg.Wait()
		assert.Zero(t, time.Since(closed))
	})
}
