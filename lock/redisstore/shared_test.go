package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARefusedPermitReportsWhenEnoughLeasesExpire(t *testing.T) {
	c := newSharedTable(t)
	for i, owner := range []string{"a:1", "b:1", "c:1", "d:1"} {
		a := permits(owner, 9)
		a.ttl = (i + 1) * 10_000
		c.granted(a)
	}
	assert.InDelta(t, 10_000, c.refused(permits("e:1", 4)), 2000)
	assert.InDelta(t, 30_000, c.refused(permits("e:1", 2)), 2000, "three leases must expire")
}

func TestOwnersHoldDisjointMembers(t *testing.T) {
	c := newSharedTable(t)
	first := c.granted(wants("a:1", "abc"))
	rising(t, first, c.granted(wants("b:1", "de")))
	assert.InDelta(t, ttlMs, c.refused(wants("c:1", "cx")), 2000, "the batch needs all its members")
	c.granted(wants("c:1", "xy"))
	assert.Equal(t, map[string]string{"a": "a:1", "b": "a:1", "c": "a:1", "d": "b:1", "e": "b:1", "x": "c:1", "y": "c:1"},
		c.rdb.HGetAll(t.Context(), c.k.members).Val())
	assert.EqualValues(t, 1, c.release("a:1", 0))
	assert.Equal(t, map[string]string{"d": "b:1", "e": "b:1", "x": "c:1", "y": "c:1"}, c.rdb.HGetAll(t.Context(), c.k.members).Val())
	c.granted(wants("d:1", "a"))
	for _, owner := range []string{"b:1", "c:1", "d:1"} {
		assert.EqualValues(t, 1, c.release(owner, 0))
	}
	c.empty()
}

// each runs a test for all modes. The test may assume only that first and second cannot be
// held at the same time, and that first and third can.
func each(t *testing.T, f func(t *testing.T, c *sharedTable, first, second, third acquireArgs)) {
	for _, asks := range [][3]acquireArgs{
		{reads("a:1"), writes("b:1"), reads("c:1")},
		{permits("a:1", 1), permits("b:1", 1), permits("c:1", 2)},
		{wants("a:1", "xy"), wants("b:1", "yz"), wants("c:1", "z")},
	} {
		t.Run(asks[0].mode, func(t *testing.T) { f(t, newSharedTable(t), asks[0], asks[1], asks[2]) })
	}
}

func TestAcquireASharedLockAgain(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
		token := c.granted(first)
		other := c.granted(third)
		require.NoError(t, c.rdb.ZIncrBy(t.Context(), c.k.lock, -20_000, first.owner).Err())
		assert.Equal(t, token, c.granted(first), "the same grant")
		around(t, ttlMs*time.Millisecond, c.end(first.owner), "the full TTL, although the place is shorter")
		assert.Equal(t, other, c.token(third.owner))
		c.refused(second)
	})
}

func TestTryAcquireASharedLockWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		token := c.granted(first)
		before := c.dump()
		v := c.acquire(second, 0)
		latest, ok := parseToken(v[1])
		require.True(t, ok)
		held, _ := parseToken(token)
		assert.GreaterOrEqual(t, latest, held)
		assert.LessOrEqual(t, latest, uint64(time.Now().UnixMicro()))
		assert.Equal(t, before, c.dump())
	})
}

func TestRenewSharedLocks(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, third acquireArgs) {
		token := c.granted(first)
		require.NoError(t, c.rdb.ZIncrBy(t.Context(), c.k.lock, -20_000, first.owner).Err())
		assert.True(t, c.renews(first.owner, token))
		around(t, ttlMs*time.Millisecond, c.end(first.owner))

		before := c.dump()
		assert.False(t, c.renews(first.owner, token+"0"), "another grant")
		assert.False(t, c.renews(third.owner, token), "another owner")
		c.queued(writesLike(first))
		waiting := c.dump()
		assert.False(t, c.renews("w:1", "0"), "a place is not a lease")
		assert.Equal(t, waiting, c.dump())
		assert.EqualValues(t, 2, c.release("w:1", 0))
		assert.Equal(t, before[c.k.lock], c.dump()[c.k.lock])

		c.expire(first.owner)
		before = c.dump()
		assert.False(t, c.renews(first.owner, token), "an expired lease is lost, even before a script removes it")
		assert.Equal(t, before, c.dump())
		require.NoError(t, c.rdb.Del(t.Context(), c.k.lock).Err())
		assert.False(t, c.renews(first.owner, token))
		assert.Zero(t, c.rdb.Exists(t.Context(), c.k.lock).Val(), "the script creates no key")
	})
}

// writesLike returns a request of owner w:1 that conflicts with a.
func writesLike(a acquireArgs) acquireArgs {
	if a.mode == "r" {
		a.mode = "w"
	}
	a.owner = "w:1"
	return a
}

func TestRenewManySharedLocksInOneScript(t *testing.T) {
	tables := []*sharedTable{newSharedTable(t), newSharedTable(t), newSharedTable(t)}
	var keys []string
	args := []any{ttlMs}
	for i, c := range tables {
		token := c.granted(permits("a:1", 2))
		if i == 1 {
			token = "1"
		}
		keys = append(keys, c.k.lock, c.k.records, c.k.members)
		args = append(args, "a:1 "+token)
	}
	list := tables[0].pre + "{list}"
	spoil(t, tables[0].rdb, list)
	require.NoError(t, tables[0].rdb.Set(t.Context(), "spoiled:"+list, 1, time.Minute).Err())
	keys = append(keys, list, list, list, tables[0].k.lock, list, list)
	args = append(args, "a:1 1", args[1])
	lost, err := tables[0].call(sharedRenewScript, keys, args...)
	require.NoError(t, err)
	assert.Equal(t, []any{int64(2), int64(4), int64(5)}, lost, "leases at keys with foreign values are lost")
	assert.Equal(t, time.Duration(-1), tables[0].pttl(list), "the foreign value is unchanged")
}

func TestASharedLockExpiresWithItsLastLease(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, third acquireArgs) {
		third.ttl = 2 * ttlMs
		token := c.granted(first)
		exactly := func(owner string) {
			t.Helper()
			assert.Equal(t, int64(c.rdb.ZScore(t.Context(), c.k.lock, owner).Val()), c.endOf(c.k.lock))
		}
		exactly(first.owner)
		c.granted(third)
		exactly(third.owner)
		assert.True(t, c.renews(first.owner, token))
		exactly(third.owner)
		assert.EqualValues(t, 1, c.release(third.owner, 0))
		exactly(first.owner)
		assert.True(t, c.renews(first.owner, token))
		exactly(first.owner)
		c.granted(first)
		exactly(first.owner)
	})
}

func TestTheRecordOfALeaseOutlastsIt(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, third acquireArgs) {
		sides := []string{c.k.records}
		if first.mode == "m" {
			sides = append(sides, c.k.members)
		}
		both := func(left time.Duration, msg ...any) {
			t.Helper()
			for _, key := range sides {
				assert.InDelta(t, left.Milliseconds(), c.pttl(key).Milliseconds(), 2000, msg...)
			}
		}
		const ttl = ttlMs * time.Millisecond
		token := c.granted(first)
		both(4 * ttl)
		for i := range sides {
			for j, key := range sides {
				left := 2*ttl + time.Minute
				if i == j {
					left = 2*ttl - time.Second
				}
				require.NoError(t, c.rdb.PExpire(t.Context(), key, left).Err())
			}
			assert.True(t, c.renews(first.owner, token))
			assert.InDelta(t, 4*ttlMs, c.pttl(sides[i]).Milliseconds(), 2000)
		}
		for _, key := range sides {
			require.NoError(t, c.rdb.PExpire(t.Context(), key, 2*ttl+5*time.Second).Err())
		}
		assert.True(t, c.renews(first.owner, token))
		both(2*ttl+5*time.Second, "most renewals do not set the expiry")
		for _, key := range sides {
			require.NoError(t, c.rdb.PExpire(t.Context(), key, 2*ttl-time.Second).Err())
		}
		c.granted(first)
		both(4*ttl, "a repeated acquire sets the expiry too")
		third.ttl = 1000
		c.granted(third)
		both(4*ttl, "a shorter lease does not shorten the expiry")
	})
}

func TestExpiredLeasesBlockNobody(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
		old := c.granted(first)
		c.granted(third)
		c.expire(first.owner, third.owner)
		rising(t, old, c.granted(second))
		assert.Equal(t, []string{second.owner}, c.rdb.ZRange(t.Context(), c.k.lock, 0, -1).Val(), "the script removes the expired leases")
		assert.Zero(t, c.rdb.HExists(t.Context(), c.k.records, first.owner).Val())
		assert.EqualValues(t, 0, c.release(first.owner, 0))
		assert.Equal(t, []string{second.owner}, c.holders())
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestAnOwnerOfAnExpiredLeaseGetsANewLease(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		old := c.granted(first)
		c.expire(first.owner)
		rising(t, old, c.granted(first))
		c.expire(first.owner)
		c.granted(second)
		c.refused(first)
	})
}

func TestReleaseAnEndedLease(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, third acquireArgs) {
		c.granted(first)
		c.granted(third)
		c.expire(first.owner)
		before := c.dump()
		assert.EqualValues(t, 0, c.release(first.owner, 0), "the lease has expired")
		assert.Equal(t, before, c.dump(), "only scripts that also serve the queue remove expired leases")
	})
}
