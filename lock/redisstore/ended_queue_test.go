package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lock has no key but a queue whose places have expired.
func TestAnExpiredQueueDoesNotBlockOtherModes(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		exclusive := func(owner string) ([]any, error) {
			v, err := c.call(acquireScript, c.keysFor(owner), owner, ttlMs, placeMs, memMs)
			list, _ := v.([]any)
			return list, err
		}
		c.granted(first)
		c.queued(second)
		require.NoError(t, c.rdb.Del(t.Context(), c.k.lock).Err())
		c.kill(second.owner)
		v, err := exclusive("x:1")
		require.NoError(t, err)
		require.EqualValues(t, granted, v[0])
		_, err = exclusive("y:1")
		require.NoError(t, err)
		assert.Equal(t, []string{"y:1"}, c.table.queue(), "the new queue is that of an exclusive lock")

		before := c.dump()
		c.kill("y:1")
		_, err = c.try(first, placeMs)
		require.ErrorContains(t, err, "WRONGTYPE", "the exclusive lock is held")
		assert.Equal(t, before[c.k.queue], c.dump()[c.k.queue])

		require.NoError(t, c.rdb.Del(t.Context(), c.k.lock).Err())
		c.granted(first)
		c.queued(second)
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
	})
}

// The queue of an exclusive lock has more expired places than one script removes, and a live
// place behind them.
func TestAScriptRemovesAtMost1000ExpiredPlaces(t *testing.T) {
	const expired = 2500
	c := newTable(t)
	c.granted("a:1")
	c.fillQueue(expired, -1)
	c.queued("b:1")
	n := len(c.queue()) // entering has removed some expired places
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Empty(t, c.value(), "the script did not reach the live place")
	assert.Len(t, c.queue(), n-1000)

	for _, left := range []int{n - 2000, 1} {
		v := c.acquire("c:1", ttlMs, 0)
		require.Len(t, v, 4)
		if left > 1 {
			assert.Equal(t, []any{int64(taken), v[1], int64(1), int64(1)}, v, "the request does not overtake the live place")
			assert.Len(t, c.queue(), left)
		}
	}
	assert.Contains(t, c.value(), "b:1 ")
	assert.Empty(t, c.queue())
}

func TestReleaseDeletesAQueueOfExpiredPlaces(t *testing.T) {
	c := newTable(t)
	c.granted("a:1")
	c.fillQueue(2500, -1)
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Empty(t, c.queue())
	assert.Empty(t, c.places())
	c.granted("b:1")
}

// fillQueue puts n owners into the queue of an exclusive lock. Their places expire the given
// number of seconds from now.
func (tb *table) fillQueue(n int, seconds int) {
	tb.Helper()
	end := float64(time.Now().Add(time.Duration(seconds) * time.Second).UnixMilli())
	_, err := tb.rdb.Pipelined(tb.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			owner := fmt.Sprintf("expired:%d", i)
			p.RPush(tb.Context(), tb.k.queue, owner)
			p.ZAdd(tb.Context(), tb.k.places, redis.Z{Member: owner, Score: end})
		}
		p.PExpire(tb.Context(), tb.k.queue, 4*placeMs*time.Millisecond)
		p.PExpire(tb.Context(), tb.k.places, 4*placeMs*time.Millisecond)
		return nil
	})
	require.NoError(tb, err)
}
