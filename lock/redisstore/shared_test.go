package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

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

func TestClearingExpiredHoldersKeepsMembersOfOthers(t *testing.T) {
	c := newSharedTable(t)
	for _, owner := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D", "E", "F"} {
		c.granted(wants(owner, owner)) // as many as one script removes
		c.expire(owner)
	}
	c.granted(wants("a:1", "xy"))
	c.granted(wants("z:1", "q"))
	require.NoError(t, c.rdb.ZAddXX(t.Context(), c.k.lock, zOf("a:1", 2)).Err())
	for _, owner := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D", "E", "F"} {
		require.NoError(t, c.rdb.ZAdd(t.Context(), c.k.lock, zOf(owner, 1)).Err())
	}
	c.granted(wants("b:1", "yz"))
	assert.Contains(t, c.rdb.ZRange(t.Context(), c.k.lock, 0, -1).Val(), "a:1", "the expired holder is not removed yet")
	assert.Equal(t, "b:1", c.rdb.HGet(t.Context(), c.k.members, "y").Val())
	c.refused(wants("c:1", "y"))
	assert.NotContains(t, c.rdb.ZRange(t.Context(), c.k.lock, 0, -1).Val(), "a:1", "the expired holder is removed")
	assert.Equal(t, map[string]string{"y": "b:1", "z": "b:1", "q": "z:1"}, c.rdb.HGetAll(t.Context(), c.k.members).Val())
}

// moded returns a request for a key in a mode, by a new owner.
func moded(key string, mode driver.Mode, extra driver.Attrs) driver.Request {
	r := request(key)
	r.Mode, r.Attrs = mode, &extra
	return r
}

// allModes returns a request for a separate key in each mode.
func allModes(key string) []driver.Request {
	return []driver.Request{
		request(key + "x"),
		moded(key+"r", driver.Read, driver.Attrs{}),
		moded(key+"w", driver.Write, driver.Attrs{}),
		moded(key+"p", driver.Permit, driver.Attrs{Limit: 1}),
		moded(key+"m", driver.Members, driver.Attrs{Members: []string{"a", "b"}}),
	}
}

// batchOfAllModes checks that each outcome of a batch of several scripts belongs to its lease.
func batchOfAllModes(t *testing.T, s *Store, rdb redis.Cmdable) {
	var leases []driver.Lease
	var want []renewal.Outcome
	for i := range 3 * rediskit.LeasesPerScript {
		for _, r := range allModes(fmt.Sprint("k", i)) {
			l := acquire(t, s, r)
			outcome := renewal.Renewed
			switch len(leases) % 7 {
			case 2:
				require.NoError(t, rdb.Del(t.Context(), s.lockKey(r.Key)).Err())
				outcome = renewal.Lost
			case 4:
				l.State = nil
			case 5:
				l.TTL *= 2
			}
			leases, want = append(leases, l), append(want, outcome)
		}
	}
	assert.Equal(t, want, renew(t, s, leases...))
	slices.Reverse(leases)
	slices.Reverse(want)
	assert.Equal(t, want, renew(t, s, leases...))
}

// The store accepts the largest lock.Batch.
func TestMembersOfAMebibyte(t *testing.T) {
	s, _ := sharedStore(t)
	members := make([]string, driver.MaxMemberBytes/driver.MaxKeyLen)
	for i := range members {
		members[i] = fmt.Sprintf("%0*d", driver.MaxKeyLen, i)
	}
	r := moded("k", driver.Members, driver.Attrs{Members: members})
	l := acquire(t, s, r)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
	require.NoError(t, s.Release(t.Context(), l))
}

func TestSharedRequestsAreRefusedWithoutIO(t *testing.T) {
	w := &testredis.Wire{Answer: func([]string) string { return "-ERR it was asked\r\n" }}
	s := newStore(t, w.Client(t, redis.Options{}), nil)
	many := make([]string, driver.MaxMembers+1)
	for i := range many {
		many[i] = fmt.Sprintf("%05d", i)
	}
	for want, r := range map[string]driver.Request{
		"unsupported":              moded("k", driver.Members+1, driver.Attrs{}),
		"limit":                    moded("k", driver.Permit, driver.Attrs{Limit: 0}),
		"1 to 10000 members":       moded("k", driver.Members, driver.Attrs{}),
		"10000 members, got 10001": moded("k", driver.Members, driver.Attrs{Members: many}),
		"is empty":                 moded("k", driver.Members, driver.Attrs{Members: []string{"", "a"}}),
		"1048577 bytes in all":     moded("k", driver.Members, driver.Attrs{Members: []string{strings.Repeat("x", driver.MaxMemberBytes+1)}}),
	} {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, want)
		assert.Equal(t, r.Mode == driver.Members, errors.Is(err, driver.ErrBadMembers), want)
		_, err = s.Wait(t.Context(), r, func() {})
		require.ErrorContains(t, err, want)
	}
	assert.Zero(t, w.Evals.Load())
}

// A forced release finds the token in the records.
func TestForceReleaseOfASharedLockWithoutItsLastToken(t *testing.T) {
	s, rdb := sharedStore(t)
	for _, r := range allModes("k")[1:] {
		l := acquire(t, s, r)
		require.NoError(t, rdb.Del(t.Context(), s.keys(r.Key, r.Owner).token).Err())
		require.NoError(t, s.ForceRelease(t.Context(), r.Key), r.Mode)
		assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))
	}
}
