package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const keepMs = 2 * ttlMs

// releaseKept releases a batch that keeps its members taken for some ms.
func (c *sharedTable) releaseKept(owner string, ms int) int64 {
	c.Helper()
	v, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, owner), owner, 0, memMs, ms)
	require.NoError(c, err)
	return v.(int64)
}

// renewsStepwise reports whether renewals of single keys, as they are sent while the slot moves,
// find the lease.
func (c *sharedTable) renewsStepwise(owner, token string) bool {
	c.Helper()
	for _, step := range [][2]string{{c.k.records, "r"}, {c.k.members, "k"}, {c.k.lock, "h"}} {
		v, err := c.call(sharedKeyScript, []string{step[0]}, 100*ttlMs, owner+" "+token, step[1])
		require.NoError(c, err)
		if len(v.([]any)) > 0 {
			return false
		}
	}
	return true
}

// No message of the former owner finds the lease, and none changes it.
func TestAKeptBatchBelongsToNobody(t *testing.T) {
	c := newSharedTable(t)
	a := wants("a:1", "xy")
	token := c.granted(a)
	assert.True(t, c.renewsStepwise("a:1", token))
	assert.EqualValues(t, 1, c.releaseKept("a:1", keepMs))
	before := c.dump()
	assert.False(t, c.renews("a:1", token))
	assert.False(t, c.renewsStepwise("a:1", token))
	assert.EqualValues(t, 0, c.release("a:1", 0))
	assert.EqualValues(t, 0, c.releaseKept("a:1", 100*keepMs))
	assert.InDelta(t, keepMs, c.refused(a), 2000)
	_, ms, head := c.queued(a)
	assert.InDelta(t, keepMs, ms, 2000)
	assert.False(t, head)
	assert.Empty(t, c.queue(), "it gets no place")
	assert.Equal(t, before, c.dump())
	assert.InDelta(t, keepMs, c.refused(wants("b:1", "yz")), 2000)
	c.granted(wants("c:1", "z"))
	assert.NotEqual(t, token, c.token("c:1"))
}

// A kept batch costs the same for any number of members, and its keys do not outlast it by much.
func TestTenThousandMembersAreKept(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	members := make([]string, driver.MaxMembers)
	for i := range members {
		members[i] = fmt.Sprintf("%05d", i)
	}
	l := acquire(t, s, moded("k", driver.Members, driver.Attrs{Members: members, Metadata: "host 7"}))
	l.Attrs = &driver.Attrs{Members: members, KeepUntil: time.Now().Add(time.Hour)}
	before := changesOf(t, rdb)
	require.NoError(t, s.Release(t.Context(), l))
	assert.Less(t, changesOf(t, rdb)-before, 10)
	for _, key := range []string{s.lockKey("k"), s.lockKey("k") + recordsEnd, s.lockKey("k") + membersEnd} {
		left := rdb.PTTL(t.Context(), key).Val()
		assert.Greater(t, left, 50*time.Minute, key)
		assert.Less(t, left, 61*time.Minute, key)
	}
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	around(t, time.Hour, info.FreeIn)
	info.FreeIn = 0
	assert.Equal(t, driver.Info{Token: l.Token}, info)
	require.NoError(t, s.ForceRelease(t.Context(), "k"))
	assert.Equal(t, []string{s.lockKey("k") + ":t"}, keysOf(t, rdb, s.prefix))
}

// changesOf returns how many changes of keys a server has counted.
func changesOf(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	info := rdb.InfoMap(t.Context(), "persistence").Val()
	n, err := strconv.Atoi(info["Persistence"]["rdb_changes_since_last_save"])
	require.NoError(t, err)
	return n
}

// Waiters that expect the end of the lease must learn of an earlier one. They poll by themselves
// before a later one.
func TestWaitersLearnWhenAKeptBatchBecomesFree(t *testing.T) {
	c := newSharedTable(t)
	first, second, other := c.signals("first"), c.signals("second"), c.signals("other")
	for _, ms := range []int{ttlMs / 2, 2 * ttlMs} {
		owner := fmt.Sprintf("a:%d", ms)
		c.granted(wants(owner, "xy"))
		c.granted(wants("b:1", "z"))
		c.queued(wants("first:1", "x"))
		c.queued(wants("other:1", "z"))
		c.queued(wants("second:1", "xy"))
		assert.EqualValues(t, 1, c.releaseKept(owner, ms))
		if ms < ttlMs {
			assert.Equal(t, []string{message("first:1", "0")}, first())
			assert.Equal(t, []string{message("second:1", "0")}, second())
		}
		assert.Empty(t, first())
		assert.Empty(t, second())
		assert.Empty(t, other())
		_, left, _ := c.queued(wants("first:1", "x"))
		assert.InDelta(t, ms, left, 2000)
		assert.Equal(t, []string{"first:1", "other:1", "second:1"}, c.queue())
		require.NoError(t, c.rdb.Unlink(t.Context(), sharedKeysInOrder(&c.k, "")...).Err())
	}
}

// The key of the holders must not expire before a kept batch, whichever lease is renewed.
func TestARenewalOfAnotherBatchKeepsAKeptOne(t *testing.T) {
	c := newSharedTable(t)
	c.granted(wants("a:1", "x"))
	token := c.granted(wants("b:1", "y"))
	assert.EqualValues(t, 1, c.releaseKept("a:1", keepMs))
	end := int64(math.Ceil(c.rdb.ZScore(t.Context(), c.k.lock, "a:1").Val()))
	assert.Equal(t, end, c.endOf(c.k.lock))
	assert.True(t, c.renews("b:1", token))
	assert.Equal(t, end, c.endOf(c.k.lock))
	assert.EqualValues(t, 1, c.release("b:1", 0))
	assert.Equal(t, end, c.endOf(c.k.lock))
	assert.InDelta(t, keepMs, c.refused(wants("c:1", "x")), 2000)
}

// A group can have holders beside a batch that is kept. Only the holders are shown.
func TestInspectAKeptBatchBesideAHolder(t *testing.T) {
	c := newSharedTable(t)
	see := func() (info driver.Info, seen uint64) {
		reply, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.records})
		require.NoError(t, err)
		info, seen, err = parseShared(reply)
		require.NoError(t, err)
		return info, seen
	}
	c.granted(wants("b:1", "y"))
	token := c.granted(wants("a:1", "x"))
	assert.EqualValues(t, 1, c.releaseKept("a:1", keepMs))
	require.NoError(t, c.rdb.Unlink(t.Context(), c.k.token).Err())
	info, seen := see()
	assert.Equal(t, 1, info.Held)
	require.Len(t, info.Holders, 1)
	assert.Zero(t, info.FreeIn)
	assert.Equal(t, token, strconv.FormatUint(seen, 10), "a forced release must free the kept batch, too")
	assert.EqualValues(t, 1, c.release("b:1", 0))
	info, _ = see()
	assert.Zero(t, info.Held)
	around(t, keepMs*time.Millisecond, info.FreeIn)
}

func TestAFullServerKeepsABatch(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, moded("k", driver.Members, driver.Attrs{Members: []string{"a", "b"}}))
	l.Attrs = &driver.Attrs{Members: l.Attrs.Members, KeepUntil: time.Now().Add(time.Hour)}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, s.Release(t.Context(), l))
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Positive(t, info.FreeIn)
}

// Readers, writers and permits are never kept, whatever the lease says.
func TestOtherModesCannotBeKept(t *testing.T) {
	for mode := driver.Exclusive; mode <= driver.Members; mode++ {
		assert.Equal(t, mode == driver.Exclusive || mode == driver.Members, new(Store).Describe().Keeps.Has(mode), mode)
	}
	s, rdb := sharedStore(t)
	for _, mode := range []driver.Mode{driver.Read, driver.Write, driver.Permit} {
		l := acquire(t, s, moded(mode.String(), mode, driver.Attrs{Limit: 1, KeepUntil: time.Now().Add(time.Hour)}))
		require.NoError(t, s.Release(t.Context(), l))
		assert.Zero(t, rdb.Exists(t.Context(), s.lockKey(mode.String())).Val())
	}
}
