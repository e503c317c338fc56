package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWriterIsNotStarved(t *testing.T) {
	c := newCrowd(t)
	c.granted(reads("a:1"))
	c.granted(reads("b:1"))
	_, ms, head := c.queued(writes("w:1"))
	assert.InDelta(t, ttlMs, ms, 2000)
	assert.True(t, head)
	c.refused(reads("c:1"))
	_, _, head = c.queued(reads("c:1"))
	assert.False(t, head)
	_, _, head = c.queued(writes("v:1"))
	assert.False(t, head)
	c.queued(reads("d:1"))
	assert.Equal(t, []string{"w:1", "c:1", "v:1", "d:1"}, c.queue())

	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1"}, c.holders())
	assert.EqualValues(t, 1, c.release("b:1", 0))
	assert.Equal(t, []string{"w:1"}, c.holders())
	assert.EqualValues(t, 1, c.release("w:1", 0))
	assert.Equal(t, []string{"c:1"}, c.holders(), "the reader up to the next writer")
	assert.EqualValues(t, 1, c.release("c:1", 0))
	assert.EqualValues(t, 1, c.release("v:1", 0))
	assert.EqualValues(t, 1, c.release("d:1", 0))
	c.empty()
}

func TestReadersAreServedInOneGo(t *testing.T) {
	c := newCrowd(t)
	signals := c.signals("r")
	tokens := []string{c.granted(writes("w:1"))}
	for i := range 20 {
		c.queued(reads(fmt.Sprintf("r:%02d", i)))
	}
	assert.EqualValues(t, 1, c.release("w:1", 0))
	var want []string
	for i := range 20 {
		owner := fmt.Sprintf("r:%02d", i)
		tokens = append(tokens, c.token(owner))
		want = append(want, owner+" "+c.token(owner))
		around(t, placeMs*time.Millisecond, c.end(owner), "for what is left of the place")
	}
	rising(t, tokens...)
	assert.Equal(t, want, signals(), "and each is told")
	assert.Len(t, c.holders(), 20)
	assert.Equal(t, tokens[20], c.rdb.Get(t.Context(), c.k.token).Val())
	around(t, memMs*time.Millisecond, c.pttl(c.k.token))
	assert.Zero(t, c.rdb.Exists(t.Context(), c.k.queue, c.k.places).Val())
}

func TestReadersComeInWhenTheWriterBeforeThemGivesUp(t *testing.T) {
	c := newCrowd(t)
	c.granted(reads("a:1"))
	c.queued(writes("w:1"))
	c.queued(reads("b:1"))
	c.queued(reads("c:1"))
	assert.EqualValues(t, 2, c.release("w:1", 0))
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, c.holders())

	c.queued(writes("w:2"))
	c.queued(reads("d:1"))
	c.kill("w:2")
	c.queuedOrNot(writes("x:1"))
	assert.Equal(t, []string{"a:1", "b:1", "c:1", "d:1"}, c.holders(), "by dying, too: the next request finds out")
	assert.Equal(t, []string{"x:1"}, c.queue())
}

func (c *crowd) queuedOrNot(a ask) { c.acquire(a, placeMs) }

func TestDowngradeServesReaders(t *testing.T) {
	c := newCrowd(t)
	token := c.granted(writes("a:1"))
	c.queued(reads("b:1"))
	c.queued(reads("c:1"))
	c.queued(writes("w:1"))
	c.queued(reads("d:1"))
	assert.Equal(t, token, c.granted(reads("a:1")), "it overtakes those that wait")
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, c.holders())
	assert.Equal(t, []string{"w:1", "d:1"}, c.queue())
	rising(t, token, c.token("b:1"), c.token("c:1"))
}

func TestPermitsAreFirstInFirstOut(t *testing.T) {
	c := newCrowd(t)
	for _, owner := range []string{"a:1", "b:1", "c:1"} {
		c.granted(permits(owner, 3))
	}
	c.queued(permits("one:1", 1))
	c.queued(permits("three:1", 3))
	c.queued(permits("three:2", 3))
	c.refused(permits("many:1", 9))
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "c:1"}, c.holders(), "the first wants to be alone")
	c.refused(permits("many:1", 9))
	assert.EqualValues(t, 1, c.release("b:1", 0))
	assert.EqualValues(t, 1, c.release("c:1", 0))
	assert.Equal(t, []string{"one:1", "three:1", "three:2"}, c.holders(), "each is judged by its own limit")
}

func TestMembersWaitOnlyForWhatTheyWant(t *testing.T) {
	c := newCrowd(t)
	c.granted(wants("a:1", "ab"))
	c.granted(wants("b:1", "xy"))
	_, ms, head := c.queued(wants("c:1", "bcx"))
	assert.InDelta(t, ttlMs, ms, 2000)
	assert.True(t, head)
	c.granted(wants("d:1", "de"))
	assert.Zero(t, c.refused(wants("e:1", "c")), "a waiter is in the way, and nobody knows how long")
	_, ms, head = c.queued(wants("e:1", "cq"))
	assert.Zero(t, ms)
	assert.False(t, head, "there is nobody whose end it would have to notice")
	_, _, head = c.queued(wants("f:1", "ay"))
	assert.True(t, head, "another may not wait for the same end")
	c.refused(wants("g:1", "q"))
	c.granted(wants("g:1", "z"))

	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "d:1", "g:1"}, c.holders(), "nobody has got all it wants")
	assert.EqualValues(t, 1, c.release("b:1", 0))
	assert.Equal(t, []string{"c:1", "d:1", "f:1", "g:1"}, c.holders(), "e wants what c got")
	assert.EqualValues(t, 1, c.release("c:1", 0))
	assert.Equal(t, []string{"d:1", "e:1", "f:1", "g:1"}, c.holders())
	rising(t, c.token("d:1"), c.token("g:1"), c.token("f:1"), c.token("e:1"))
	for _, owner := range c.holders() {
		assert.EqualValues(t, 1, c.release(owner, 0))
	}
	c.empty()
}

func TestMembersAreServedInOrder(t *testing.T) {
	c := newCrowd(t)
	c.granted(wants("a:1", "x"))
	c.queued(wants("b:1", "xy"))
	c.queued(wants("c:1", "yz"))
	c.queued(wants("d:1", "z"))
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1"}, c.holders(), "d does not overtake c, which waits for b")
	assert.EqualValues(t, 2, c.release("c:1", 0))
	assert.Equal(t, []string{"b:1", "d:1"}, c.holders(), "until that leaves")
}

func TestAnEndedLeaseServesThoseThatWait(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		signals := c.signals("b")
		old := c.granted(first)
		c.queued(second)
		c.expire(first.owner)
		c.refused(writesLike(first))
		assert.Equal(t, []string{second.owner}, c.holders(), "any request moves the queue on, a try too")
		around(t, placeMs*time.Millisecond, c.end(second.owner))
		rising(t, old, c.token(second.owner))
		assert.Equal(t, []string{"b:1 " + c.token("b:1")}, signals())

		c.queued(writesLike(first))
		c.expire(second.owner)
		rising(t, c.granted(writesLike(first)))
		around(t, ttlMs*time.Millisecond, c.end("w:1"), "who asks itself gets the whole TTL")
		assert.Zero(t, c.rdb.Exists(t.Context(), c.k.queue, c.k.places).Val())
	})
}

func TestTheMarkOfASharedLock(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, third ask) {
		c.granted(first)
		last := c.granted(third)
		mark, _, _ := c.queued(second)
		notAbove(t, last, mark)
		if second.mode == "p" {
			assert.EqualValues(t, 1, c.release(third.owner, 0))
		}
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		if second.mode != "p" {
			assert.EqualValues(t, 1, c.release(third.owner, 0))
		}
		granted := c.token(second.owner)
		rising(t, mark, granted)
		require.NoError(t, c.rdb.Del(t.Context(), c.k.token).Err())
		mark, _, _ = c.queued(writesLike(first))
		notAbove(t, granted, mark)
	})
}

func notAbove(t *testing.T, low, high string) {
	t.Helper()
	a, okA := parseToken(low)
	b, okB := parseToken(high)
	require.True(t, okA && okB)
	assert.LessOrEqual(t, a, b)
}

func TestPlacesOfASharedLock(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		c.granted(first)
		c.queued(second)
		last := writesLike(first)
		c.queued(last)
		c.queued(second)
		assert.Equal(t, []string{second.owner, last.owner}, c.queue(), "a poll keeps the turn")
		sides := []string{c.k.queue, c.k.places, c.k.records}
		for _, key := range sides[:2] {
			around(t, 4*placeMs*time.Millisecond, c.pttl(key))
		}
		for i := range sides {
			for _, key := range sides {
				require.NoError(t, c.rdb.PExpire(t.Context(), key, 3*placeMs*time.Millisecond).Err())
			}
			c.queued(second)
			around(t, 3*placeMs*time.Millisecond, c.pttl(sides[i]), "most polls do not write it")
			require.NoError(t, c.rdb.PExpire(t.Context(), sides[i], 2*placeMs*time.Millisecond-time.Second).Err())
			c.queued(second)
			for _, key := range sides {
				around(t, 4*placeMs*time.Millisecond, c.pttl(key), "they end together")
			}
		}
		c.kill(second.owner)
		c.queued(second)
		assert.Equal(t, []string{second.owner, last.owner}, c.queue(), "a place that ended is revived where it stood")

		c.kill(second.owner)
		c.queued(last)
		assert.Equal(t, []string{last.owner}, c.queue(), "unless another was first")
		c.queued(second)
		assert.Equal(t, []string{last.owner, second.owner}, c.queue())
		assert.EqualValues(t, 2, c.release(last.owner, 0))
		assert.EqualValues(t, 0, c.release(last.owner, 0), "once")
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestTheDeadInTheQueueOfASharedLock(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		c.granted(first)
		var dead []string
		for i := range 20 {
			a := writesLike(first)
			a.owner = fmt.Sprintf("dead:%d", i)
			dead = append(dead, a.owner)
			c.queued(a)
		}
		c.kill(dead...)
		require.NoError(t, c.rdb.ZRem(t.Context(), c.k.places, dead[3]).Err(), "in the queue but without a place")
		c.queued(second)
		assert.Contains(t, c.queue(), second.owner)
		assert.LessOrEqual(t, len(c.queue()), 5, "they are cleared away, 16 at a time")
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestTombstonesOfSharedLocks(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		assert.EqualValues(t, 0, c.release(first.owner, tombMs), "it came before the acquire")
		around(t, tombMs*time.Millisecond, c.pttl(c.k.tombstone+first.owner))
		before := c.dump()
		assert.Equal(t, []any{int64(refused)}, c.acquire(first, 0))
		assert.Equal(t, []any{int64(refused)}, c.acquire(first, placeMs))
		assert.Equal(t, before, c.dump())

		c.granted(second)
		c.queued(writesLike(first))
		assert.EqualValues(t, 2, c.release("w:1", tombMs))
		assert.EqualValues(t, 1, c.release(second.owner, tombMs))
		assert.Equal(t, []any{int64(refused)}, c.acquire(second, placeMs))
		assert.Equal(t, []any{int64(refused)}, c.acquire(writesLike(first), placeMs))
		assert.Empty(t, c.holders())
	})
}

func TestReleaseASharedLockTwice(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		c.granted(first)
		c.queued(second)
		c.queued(writesLike(first))
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		before := c.dump()
		assert.EqualValues(t, 0, c.release(first.owner, 0))
		assert.Equal(t, before, c.dump(), "the second hands nothing over")
	})
}
