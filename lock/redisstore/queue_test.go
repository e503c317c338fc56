package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEnterTheQueueAndPoll(t *testing.T) {
	tb := newTable(t)
	token := tb.granted("a:1")
	mark, head := tb.queued("b:1")
	assert.Equal(t, token, mark)
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
	assert.Equal(t, []string{"b:1", "c:1"}, tb.queue(), "and keeps the turn")
}

func TestTheQueueEndsSoonAfterItsLastWaiter(t *testing.T) {
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
		assert.Greater(t, tb.pttl(key), time.Minute, "most polls do not write it")
		require.NoError(t, tb.rdb.PExpire(t.Context(), key, 2*placeMs*time.Millisecond-time.Second).Err())
	}
	tb.queued("b:1")
	for _, key := range []string{tb.k.queue, tb.k.places} {
		around(t, 4*placeMs*time.Millisecond, tb.pttl(key))
	}
}

func TestTheQueueAndItsPlacesEndTogether(t *testing.T) {
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
	assert.Equal(t, []string{"c:1"}, tb.queue(), "it cleared away the only other, and with it the queue")
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
	around(t, placeMs*time.Millisecond, tb.pttl(tb.k.lock), "the grant inherits what is left of the place")
	assert.Equal(t, second, tb.rdb.Get(t.Context(), tb.k.token).Val())
	assert.Equal(t, []string{"c:1"}, tb.queue())
	assert.Equal(t, []string{"c:1"}, tb.places(), "a holder has no place")
	assert.Equal(t, []string{"b:1 " + second}, signals())

	assert.Equal(t, second, tb.granted("b:1"), "asking again confirms the grant")
	around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock))
	mark, head := tb.queued("c:1")
	assert.Equal(t, second, mark)
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
		tb.queued(fmt.Sprintf("o%d:1", waiters-i)) // polls change no turns
	}
	for i := range waiters {
		assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", i), 0))
		owner, token, _ := strings.Cut(tb.value(), " ")
		assert.Equal(t, fmt.Sprintf("o%d:1", i+1), owner)
		tokens = append(tokens, token)
	}
	rising(t, tokens...)
	assert.EqualValues(t, 1, tb.release(fmt.Sprintf("o%d:1", waiters), 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "nothing is left but the last token")
}

func TestTheDeadAreSkipped(t *testing.T) {
	tb := newTable(t)
	tb.granted("a:1")
	for _, o := range []string{"b:1", "c:1", "d:1", "e:1"} {
		tb.queued(o)
	}
	tb.kill("b:1", "d:1")
	require.NoError(t, tb.rdb.ZRem(t.Context(), tb.k.places, "c:1").Err(), "in the queue but without a place")
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "e:1 ")
	assert.Empty(t, tb.queue())
	assert.Empty(t, tb.places())

	tb.queued("f:1")
	tb.queued("g:1")
	tb.kill("f:1", "g:1")
	assert.EqualValues(t, 1, tb.release("e:1", 0))
	assert.Equal(t, []string{tb.k.token}, keysOf(t, tb.rdb, tb.pre), "if all are dead the lock is free")
}

func TestAnExpiredLockGoesToTheHead(t *testing.T) {
	tb := newTable(t)
	signals := tb.signals("b")
	first := tb.granted("a:1")
	tb.queued("b:1")
	tb.queued("c:1")
	tb.expire()
	v := tb.acquire("d:1", ttlMs, 0) // any request moves the queue on, a try too
	require.Len(t, v, 4)
	assert.EqualValues(t, taken, v[0], "and does not overtake it")
	second := v[1].(string)
	rising(t, first, second)
	assert.Equal(t, "b:1 "+second, tb.value())
	assert.LessOrEqual(t, v[2].(int64), int64(placeMs))
	assert.Equal(t, []string{"b:1 " + second}, signals())
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
	assert.EqualValues(t, 1, v[3], "who finds it for another is queued behind")
	assert.Contains(t, tb.value(), "d:1 ")
	assert.Equal(t, []string{"e:1"}, tb.queue())
}

func TestEachEntryClearsAwayTwoOfTheDead(t *testing.T) {
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
	assert.Len(t, tb.queue(), 4, "a poll clears nothing away")
	tb.queued("c:1")
	tb.queued("d:1")
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.queue())
	assert.Equal(t, []string{"b:1", "c:1", "d:1"}, tb.places())
}

func TestAPlaceThatEndedIsRevivedWhereItStood(t *testing.T) {
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
	assert.EqualValues(t, 0, tb.release("b:1", 0), "once")
	assert.Contains(t, tb.value(), "a:1 ")
	tb.queued("b:1")
	assert.Equal(t, []string{"c:1", "b:1"}, tb.queue())
}
