package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestEnterTheQueueAndPoll(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	latest, head := tb.queued("b:1")
	assert.Equal(t, token, latest)
	assert.True(t, head)
	_, head = tb.queued("c:1")
	assert.False(t, head)
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue())
	ends := func(owner string) int64 { return int64(tb.rdb.ZScore(t.Context(), tb.k.places, owner).Val()) }
	assert.InDelta(t, time.Now().UnixMilli()+placeMs, ends("b:1"), 2000)
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}

	first := ends("b:1")
	time.Sleep(2 * time.Millisecond)
	_, head = tb.queued("b:1")
	assert.True(t, head)
	assert.Greater(t, ends("b:1"), first, "a poll renews the place")
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue(), "a poll keeps the position")
}

func TestTheQueueExpiresSoonAfterItsLastWaiter(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queuedFor("c:1", 1000)
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key), "a client that polls more often does not shorten it")
		require.NoError(t, tb.rdb.PExpire(t.Context(), key, 2*placeMs*time.Millisecond+time.Minute).Err())
	}
	tb.queued("b:1")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		assert.Greater(t, tb.pttl(key), time.Minute, "most polls do not set the expiry")
		require.NoError(t, tb.rdb.PExpire(t.Context(), key, 2*placeMs*time.Millisecond-time.Second).Err())
	}
	tb.queued("b:1")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}
}

func TestTheQueueAndItsPlacesExpireTogether(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	both := []string{tb.k.queue, tb.k.places}
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

func TestReleaseHandsOver(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("b")
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	owner, second, _ := strings.Cut(tb.value(), " ")
	assert.Equal(t, "b:1", owner)
	rising(t, first, second)
	around(t, placeMs*time.Millisecond, tb.pttl(tb.k.lock), "the grant lasts for the rest of the place")
	assert.Equal(t, second, tb.rdb.Get(t.Context(), tb.k.token).Val())
	assert.Equal(t, []string{"c:1"}, tb.queue())
	assert.Equal(t, []string{"c:1"}, tb.places(), "a holder has no place")
	assert.Equal(t, []string{message("b:1", second)}, signals())

	assert.Equal(t, second, tb.granted("b:1"), "another request returns the same grant")
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	latest, head := tb.queued("c:1")
	assert.Equal(t, second, latest)
	assert.True(t, head)
}

func TestTheQueueIsFirstInFirstOut(t *testing.T) {
	tb := newTable(t)
	tokens := []string{tb.granted("o0:1")}
	const waiters = 20
	for i := 1; i <= waiters; i++ {
		tb.queued(fmt.Sprintf("o%d:1", i))
	}
	for i := range waiters {
		tb.queued(fmt.Sprintf("o%d:1", waiters-i)) // polls keep the positions
	}
	for i := range waiters {
		assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", i), 0))
		owner, token, _ := strings.Cut(tb.value(), " ")
		assert.Equal(t, fmt.Sprintf("o%d:1", i+1), owner)
		tokens = append(tokens, token)
	}
	rising(t, tokens...)
	assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", waiters), 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "only the last token remains")
}

func TestExpiredPlacesAreSkipped(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	for _, o := range []string{"b:1", "c:1", "d:1", "e:1"} {
		tb.queued(o)
	}
	tb.kill("b:1", "d:1")
	require.NoError(t, tb.rdb.ZRem(t.Context(), tb.k.places, "c:1").Err(), "c:1 is in the queue without a place")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "e:1 ")
	assert.Empty(t, tb.queue())
	assert.Empty(t, tb.places())

	tb.queued("f:1")
	tb.queued("g:1")
	tb.kill("f:1", "g:1")
	assert.EqualValues(t, 1, tb.release("e:1", 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "the lock is free if all places have expired")
}

func TestAnExpiredLockGoesToTheFirstWaiter(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("b")
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	tb.expire()
	v := tb.acquire("d:1", ttlMs, 0) // any request serves the queue, even one that does not wait
	require.Len(t, v, 4)
	assert.EqualValues(t, taken, v[0], "the request does not overtake b:1")
	second := v[1].(string)
	rising(t, first, second)
	assert.Equal(t, "b:1 "+second, tb.value())
	assert.LessOrEqual(t, v[2].(int64), int64(placeMs))
	assert.Equal(t, []string{message("b:1", second)}, signals())
	assert.Equal(t, []string{"c:1"}, tb.queue())

	tb.expire()
	third := tb.granted("c:1")
	rising(t, second, third)
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "the head that asks itself gets the whole TTL")
	assert.Empty(t, tb.queue())
	assert.Empty(t, tb.places())

	tb.queued("d:1")
	tb.expire()
	v = tb.acquire("e:1", ttlMs, placeMs)
	assert.EqualValues(t, taken, v[0])
	assert.EqualValues(t, 1, v[3], "a request that serves another waiter enters the queue behind it")
	assert.Contains(t, tb.value(), "d:1 ")
	assert.Equal(t, []string{"e:1"}, tb.queue())
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

func TestAnExpiredPlaceIsRevivedAtItsPosition(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	tb.kill("b:1")
	_, head := tb.queued("b:1")
	assert.True(t, head)
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue())
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "b:1 ")
}

func TestReleaseLeavesTheQueue(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	assert.EqualValues(t, 2, tb.release("b:1", 0))
	assert.Equal(t, []string{"c:1"}, tb.queue())
	assert.Equal(t, []string{"c:1"}, tb.places())
	assert.EqualValues(t, 0, tb.release("b:1", 0), "the place is removed only once")
	assert.Contains(t, tb.value(), "a:1 ")
	tb.queued("b:1")
	assert.Equal(t, []string{"c:1", "b:1"}, tb.queue())
}

// The first waiter must notice that the lock expires. A waiter that becomes the first gets a
// signal, so that it polls.
func TestTheNewFirstWaiterIsSignalled(t *testing.T) {
	tb := newTable(t)
	first, second, third := tb.signals("b"), tb.signals("c"), tb.signals("d")
	tb.granted("a:1")
	for _, owner := range []string{"b:1", "c:1", "d:1"} {
		tb.queued(owner)
	}
	assert.EqualValues(t, 2, tb.release("b:1", 0))
	assert.Equal(t, []string{message("c:1", "0")}, second())
	assert.EqualValues(t, 2, tb.release("d:1", 0), "the last waiter")
	assert.EqualValues(t, 0, tb.release("d:1", 0), "a second time")
	assert.EqualValues(t, 2, tb.release("c:1", 0), "the only waiter")
	for _, signals := range []func() []string{first, second, third} {
		assert.Empty(t, signals())
	}
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

// The reply to a request that finds the lock free, with waiters before it, reports no lease.
func TestTryAcquireBehindWaiters(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	tb.queued("b:1")
	tb.expire()
	v := tb.acquire("c:1", ttlMs, 0)
	require.Len(t, v, 4)
	assert.EqualValues(t, 0, v[2])
	assert.Contains(t, tb.value(), "b:1 ")
	v = tb.acquire("c:1", ttlMs, 0)
	assert.Positive(t, v[2], "b:1 has the lock now")
}
