package redisstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

const keepMs = 2 * ttlMs

// releaseKept releases a batch that keeps its members taken for some ms.
func (c *sharedTable) releaseKept(owner string, ms int) int64 {
	c.Helper()
	v, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, owner), owner, 0, memMs, ms)
	require.NoError(c, err)
	return v.(int64)
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

// A group can have holders beside a batch that is kept. Only the holders are shown.
func TestInspectAKeptBatchBesideAHolder(t *testing.T) {
	c := newSharedTable(t)
	see := func() (info driver.Info, seen uint64) {
		reply, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
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

// keptFor returns the lease with an instant until which its release keeps the lock taken.
func keptFor(l driver.Lease, keep time.Duration) driver.Lease {
	l.Attrs = &driver.Attrs{Metadata: l.Metadata(), Members: l.Members(), KeepUntil: time.Now().Add(keep)}
	return l
}

// A kept lock has the form of a held one, so that clients of older versions find it taken. Its
// owner is one that no request can have.
func TestAKeptLockLooksHeld(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	r := request("k")
	r.Attrs = &driver.Attrs{Metadata: "host 7"}
	l := acquire(t, s, r)
	require.NoError(t, s.Release(t.Context(), keptFor(l, time.Hour)))
	value := rdb.Get(t.Context(), s.lockKey("k")).Val()
	assert.Equal(t, fmt.Sprintf("{kept} %d", l.Token), value)
	assert.Greater(t, rdb.PTTL(t.Context(), s.lockKey("k")).Val(), 50*time.Minute)
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))

	taken := request("k")
	taken.Owner = keptOwner
	_, err := s.Acquire(t.Context(), taken)
	require.ErrorContains(t, err, "brace")
	require.ErrorContains(t, s.Release(t.Context(), driver.Lease{Request: taken, Token: l.Token}), "brace")
	assert.Equal(t, value, rdb.Get(t.Context(), s.lockKey("k")).Val())
}
