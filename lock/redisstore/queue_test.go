package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestTheQueueAndItsPlacesExpireTogether(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queuedFor("short:1", 1000)
	both := []string{tb.k.queue, tb.k.places}
	for i := range both {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(both[i]), "a client that polls more often does not shorten it")
	}
	assert.EqualValues(t, 2, tb.release("short:1", 0))
	for i := range both {
		tb.queued("b:1")
		require.NoError(t, tb.rdb.PExpire(t.Context(), both[i], 2*placeMs*time.Millisecond-time.Second).Err())
		require.NoError(t, tb.rdb.PExpire(t.Context(), both[1-i], 3*placeMs*time.Millisecond).Err())
		tb.queued("b:1")
		for _, key := range []string{tb.k.queue, tb.k.places} {
			around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
		}
	}

	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.queue, 3*placeMs*time.Millisecond).Err())
	require.NoError(t, tb.rdb.PExpire(t.Context(), tb.k.places, 3*placeMs*time.Millisecond).Err())
	tb.kill("b:1")
	tb.queued("c:1")
	assert.Equal(t, []string{"c:1"}, tb.queue(), "entering has removed the only other place, and with it the old queue")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}
}

func TestEnteringTheQueueRemovesTwoExpiredPlaces(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	for i := range 5 {
		tb.queued(fmt.Sprintf("dead%d:1", i))
	}
	tb.kill("dead0:1", "dead1:1", "dead2:1", "dead3:1", "dead4:1")
	tb.queued("b:1")
	assert.Len(t, tb.queue(), 4)
	assert.Len(t, tb.places(), 4)
	tb.queued("b:1")
	assert.Len(t, tb.queue(), 4, "a poll removes no places")
	tb.queued("c:1")
	tb.queued("d:1")
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.queue())
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.places())
}

func TestTheFirstWaiterNoticesAnExpiredLease(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	s := patient(t, rdb)
	acquire(t, s, requestFor("k", time.Hour)) // by a client that crashes
	ctx, cancel := context.WithCancel(t.Context())
	r := requestFor("k", time.Hour)
	first := startWait(ctx, t, s, r)
	second := startWait(t.Context(), t, s, requestFor("k", time.Hour))
	require.NoError(t, rdb.PExpire(t.Context(), s.lockKey("k"), time.Second).Err())
	cancel()
	w := <-first
	require.ErrorIs(t, w.err, context.Canceled)
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: w.Unanswered}), driver.ErrNotHeld)
	select {
	case w = <-second:
		require.NoError(t, w.err)
	case <-time.After(long):
		require.Fail(t, "the waiter has not polled: its next regular poll comes after 18 minutes")
	}
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
		v, _ := c.acquire("c:1", ttlMs, 0).([]any)
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
