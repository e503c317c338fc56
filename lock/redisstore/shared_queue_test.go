package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadersAreServedTogether(t *testing.T) {
	c := newSharedTable(t)
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
		want = append(want, message(owner, c.token(owner)))
		around(t, placeMs*time.Millisecond, c.end(owner), "the lease lasts for the rest of the place")
	}
	rising(t, tokens...)
	assert.Equal(t, want, signals(), "each reader gets a signal")
	assert.Len(t, c.holders(), 20)
	assert.Equal(t, tokens[20], c.rdb.Get(t.Context(), c.k.token).Val())
	around(t, memMs*time.Millisecond, c.pttl(c.k.token))
	assert.Zero(t, c.rdb.Exists(t.Context(), c.k.queue, c.k.places).Val())
}

func TestReadersEnterWhenTheWriterBeforeThemLeaves(t *testing.T) {
	c := newSharedTable(t)
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
	assert.Equal(t, []string{"a:1", "b:1", "c:1", "d:1"}, c.holders(), "the writer's place has expired, and the next request serves the queue")
	assert.Equal(t, []string{"x:1"}, c.queue())
}

func (c *sharedTable) queuedOrNot(a acquireArgs) { c.acquire(a, placeMs) }

// Only the first waiter notices that a lease has expired. When it leaves, the next waiter
// gets a signal, so that it polls.
func TestTheNextWaiterIsSignalledWhenTheFirstLeaves(t *testing.T) {
	for name, waits := range map[string]func(owner string) acquireArgs{
		"writer": writes,
		"permit": func(owner string) acquireArgs { return permits(owner, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newSharedTable(t)
			c.granted(waits("a:1"))
			for _, owner := range []string{"first:1", "second:1", "third:1"} {
				c.queued(waits(owner))
			}
			first, second, third := c.signals("first"), c.signals("second"), c.signals("third")
			assert.EqualValues(t, 2, c.release("first:1", 0))
			assert.EqualValues(t, 2, c.release("third:1", 0), "the third waiter is not the first")
			assert.Equal(t, []string{message("second:1", "0")}, second())
			assert.Empty(t, first())
			assert.Empty(t, third())
			_, _, head := c.queued(waits("second:1"))
			assert.True(t, head)
		})
	}
}

func TestWaitersWaitOnlyForTheirMembers(t *testing.T) {
	c := newSharedTable(t)
	c.granted(wants("a:1", "ab"))
	c.granted(wants("b:1", "xy"))
	_, ms, head := c.queued(wants("c:1", "bcx"))
	assert.InDelta(t, ttlMs, ms, 2000)
	assert.True(t, head)
	c.granted(wants("d:1", "de"))
	assert.Zero(t, c.refused(wants("e:1", "c")), "a waiter blocks the request for an unknown time")
	_, ms, head = c.queued(wants("e:1", "cq"))
	assert.Zero(t, ms)
	assert.False(t, head, "no lease blocks e, so e need not notice an expiry")
	_, _, head = c.queued(wants("f:1", "ay"))
	assert.True(t, head, "other waiters may not wait for the lease that blocks f")
	c.refused(wants("g:1", "q"))
	c.granted(wants("g:1", "z"))

	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1", "d:1", "g:1"}, c.holders(), "no waiter has all its members free")
	assert.EqualValues(t, 1, c.release("b:1", 0))
	assert.Equal(t, []string{"c:1", "d:1", "f:1", "g:1"}, c.holders(), "c holds a member of e")
	assert.EqualValues(t, 1, c.release("c:1", 0))
	assert.Equal(t, []string{"d:1", "e:1", "f:1", "g:1"}, c.holders())
	rising(t, c.token("d:1"), c.token("g:1"), c.token("f:1"), c.token("e:1"))
	for _, owner := range c.holders() {
		assert.EqualValues(t, 1, c.release(owner, 0))
	}
	c.empty()
}

func TestMembersAreServedInOrder(t *testing.T) {
	c := newSharedTable(t)
	c.granted(wants("a:1", "x"))
	c.queued(wants("b:1", "xy"))
	c.queued(wants("c:1", "yz"))
	c.queued(wants("d:1", "z"))
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, []string{"b:1"}, c.holders(), "d does not overtake c, which waits for b")
	assert.EqualValues(t, 2, c.release("c:1", 0))
	assert.Equal(t, []string{"b:1", "d:1"}, c.holders(), "d enters when c has left")
}

func TestAnExpiredLeaseIsHandedToTheWaiters(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		signals := c.signals("b")
		old := c.granted(first)
		c.queued(second)
		c.expire(first.owner)
		c.refused(writesLike(first))
		assert.Equal(t, []string{second.owner}, c.holders(), "any request serves the queue, even one that does not wait")
		around(t, placeMs*time.Millisecond, c.end(second.owner))
		rising(t, old, c.token(second.owner))
		assert.Equal(t, []string{message("b:1", c.token("b:1"))}, signals())

		c.queued(writesLike(first))
		c.expire(second.owner)
		rising(t, c.granted(writesLike(first)))
		around(t, ttlMs*time.Millisecond, c.end("w:1"), "who asks itself gets the whole TTL")
		assert.Zero(t, c.rdb.Exists(t.Context(), c.k.queue, c.k.places).Val())
	})
}

func TestARefusedSharedLockReturnsTheLatestToken(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
		c.granted(first)
		last := c.granted(third)
		latest, _, _ := c.queued(second)
		notAbove(t, last, latest)
		if second.mode == "p" {
			assert.EqualValues(t, 1, c.release(third.owner, 0))
		}
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		if second.mode != "p" {
			assert.EqualValues(t, 1, c.release(third.owner, 0))
		}
		granted := c.token(second.owner)
		rising(t, latest, granted)
		require.NoError(t, c.rdb.Del(t.Context(), c.k.token).Err())
		latest, _, _ = c.queued(writesLike(first))
		notAbove(t, granted, latest)
	})
}

func notAbove(t *testing.T, low, high string) {
	t.Helper()
	a, okA := parseToken(low)
	b, okB := parseToken(high)
	require.True(t, okA && okB)
	assert.LessOrEqual(t, a, b)
}

func TestPlacesOfASharedLockExpire(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		c.queued(second)
		last := writesLike(first)
		c.queued(last)
		c.queued(second)
		assert.Equal(t, []string{second.owner, last.owner}, c.queue(), "a poll keeps the position")
		sides := []string{c.k.queue, c.k.places, c.k.records}
		for _, key := range sides[:2] {
			around(t, 4*placeMs*time.Millisecond, c.pttl(key))
		}
		for i := range sides {
			for _, key := range sides {
				require.NoError(t, c.rdb.PExpire(t.Context(), key, 3*placeMs*time.Millisecond).Err())
			}
			c.queued(second)
			around(t, 3*placeMs*time.Millisecond, c.pttl(sides[i]), "most polls do not set the expiry")
			require.NoError(t, c.rdb.PExpire(t.Context(), sides[i], 2*placeMs*time.Millisecond-time.Second).Err())
			c.queued(second)
			for _, key := range sides {
				around(t, 4*placeMs*time.Millisecond, c.pttl(key), "the keys expire together")
			}
		}
		c.kill(second.owner)
		c.queued(second)
		assert.Equal(t, []string{second.owner, last.owner}, c.queue(), "an expired place is revived at its position")

		c.kill(second.owner)
		c.queued(last)
		assert.Equal(t, []string{last.owner}, c.queue(), "a poll of another waiter has removed the place")
		c.queued(second)
		assert.Equal(t, []string{last.owner, second.owner}, c.queue())
		assert.EqualValues(t, 2, c.release(last.owner, 0))
		assert.EqualValues(t, 0, c.release(last.owner, 0), "the place is removed only once")
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestExpiredPlacesOfASharedLockAreSkipped(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		var dead []string
		for i := range 20 {
			a := writesLike(first)
			a.owner = fmt.Sprintf("dead:%d", i)
			dead = append(dead, a.owner)
			c.queued(a)
		}
		c.kill(dead...)
		require.NoError(t, c.rdb.ZRem(t.Context(), c.k.places, dead[3]).Err(), "the owner is in the queue without a place")
		c.queued(second)
		assert.Contains(t, c.queue(), second.owner)
		assert.LessOrEqual(t, len(c.queue()), 5, "a script removes 16 expired places")
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestATombstoneOfASharedLockRefusesItsOwner(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		assert.EqualValues(t, 0, c.release(first.owner, tombMs), "the release comes before the acquire")
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
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		c.queued(second)
		c.queued(writesLike(first))
		assert.EqualValues(t, 1, c.release(first.owner, 0))
		before := c.dump()
		assert.EqualValues(t, 0, c.release(first.owner, 0))
		assert.Equal(t, before, c.dump(), "the second release does not hand the lock over")
	})
}
