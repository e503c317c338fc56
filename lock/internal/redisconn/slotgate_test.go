package redisconn

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

const errTryAgain = serverError("TRYAGAIN Multiple keys request during rehashing of slot")

// offlineCluster returns a cluster whose single node gets no requests.
func offlineCluster(t *testing.T, slot uint16) *cluster {
	t.Helper()
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, newCalls())
	c.slots[slot].Store(c.node("127.0.0.1:1"))
	t.Cleanup(func() { _ = c.close() }) // some tests have closed it already
	return c
}

// While a slot moves, the number of requests does not grow with the number of calls. All
// calls are sent when it has moved.
func TestOneTrialServesAllCallsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot, calls = 7, 60
		c := offlineCluster(t, slot)
		var tries atomic.Int64
		var moved atomic.Bool
		var wg sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range calls {
			wg.Go(func() {
				_, err := c.run(ctx, slot, false, func(*Node, bool) (any, error) {
					tries.Add(1)
					if moved.Load() {
						return nil, nil
					}
					return nil, errTryAgain
				})
				assert.NoError(t, err)
			})
		}
		time.Sleep(30 * time.Second)
		assert.LessOrEqual(t, tries.Load(), int64(calls+200), "each call at most once, and then one trial every 187 to 250 ms")
		assert.Greater(t, tries.Load(), int64(100), "the pause stays at its maximum")
		before := tries.Load()
		moved.Store(true)
		wg.Wait()
		assert.LessOrEqual(t, tries.Load()-before, int64(calls+1))
		require.NoError(t, ctx.Err())
		assert.Empty(t, c.gates)
		assert.Zero(t, c.gateCount.Load())
	})
}

// If the ctx of a call ends during its trial, another call makes the next one.
func TestACancelledTrialPassesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot = 7
		c := offlineCluster(t, slot)
		tries := make([]int, 3)
		var wg sync.WaitGroup
		for i := range tries {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*5*time.Second)
				defer cancel()
				_, err := c.run(ctx, slot, false, func(*Node, bool) (any, error) { tries[i]++; return nil, errTryAgain })
				assert.ErrorIs(t, err, errTryAgain)
			})
		}
		wg.Wait()
		assert.Greater(t, tries[2], 20, "it was the only call for 5 s")
		assert.LessOrEqual(t, tries[2], 20+30+2)
		assert.Empty(t, c.gates, "the last call removes the gate")
	})
}

// An eager call names few keys, which the node may still have.
func TestAnEagerCallSkipsTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot = 7
		c := offlineCluster(t, slot)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := c.run(ctx, slot, false, func(*Node, bool) (any, error) { return nil, errTryAgain })
				assert.Error(t, err)
			})
		}
		synctest.Wait()
		asked := time.Now()
		reply, err := c.run(ctx, slot, true, func(*Node, bool) (any, error) { return "seen", nil })
		require.NoError(t, err)
		assert.Equal(t, "seen", reply)
		assert.Zero(t, time.Since(asked))
		_, err = c.run(ctx, slot+1, false, func(*Node, bool) (any, error) { return nil, errors.New("error of another slot") })
		require.Error(t, err)
		assert.Zero(t, time.Since(asked), "the gate does not delay other slots")
		cancel()
		wg.Wait()
		assert.Empty(t, c.gates)
	})
}

// Close ends the call that makes the trial, and the calls that wait at the gate.
func TestCloseEndsTheWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slot = 7
		c := offlineCluster(t, slot)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.run(t.Context(), slot, false, func(*Node, bool) (any, error) { return nil, errTryAgain })
				assert.ErrorIs(t, err, ErrClosed)
			})
		}
		time.Sleep(10 * time.Second)
		closed := time.Now()
		require.NoError(t, c.close())
		wg.Wait()
		assert.Zero(t, time.Since(closed))
	})
}
