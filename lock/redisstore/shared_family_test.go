package redisstore

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func TestDeletingTheHoldersLeavesNoRecords(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
		c.granted(first)
		c.granted(third)
		require.NoError(t, c.rdb.Del(t.Context(), c.k.lock).Err())
		c.granted(second)
		records := c.rdb.HKeys(t.Context(), c.k.records).Val()
		assert.NotContains(t, records, first.owner)
		assert.NotContains(t, records, "{"+first.owner)
		assert.EqualValues(t, 1, c.release(second.owner, 0))
		c.empty()
	})
}

func TestDowngradeIsFinal(t *testing.T) {
	c := newSharedTable(t)
	token := c.granted(writes("a:1"))
	assert.Equal(t, token, c.granted(reads("a:1")), "the token stays the same")
	c.granted(reads("b:1"))
	before := c.dump()
	_, ms, head := c.queued(writes("a:1"))
	assert.Equal(t, before, c.dump(), "a late request for the writer does not undo the downgrade")
	assert.Zero(t, ms)
	assert.False(t, head)
	assert.Equal(t, token, c.granted(reads("a:1")))
	assert.True(t, c.renews("a:1", token))
	c.refused(writes("c:1"))
}

func TestSharedModesDoNotMix(t *testing.T) {
	asks := []acquireArgs{reads("a:1"), permits("b:1", 3), wants("c:1", "x")}
	for _, first := range asks {
		for _, second := range asks {
			if first.mode == second.mode {
				continue
			}
			c := newSharedTable(t)
			c.granted(first)
			before := c.dump()
			_, err := c.try(second, placeMs)
			require.ErrorContains(t, err, "WRONGTYPE")
			assert.Equal(t, before, c.dump())
			c.expire(first.owner)
			c.granted(second)
			assert.Equal(t, []string{second.owner}, c.rdb.ZRange(t.Context(), c.k.lock, 0, -1).Val())
			assert.EqualValues(t, 1, c.release(second.owner, 0))
			c.empty()
		}
	}
}

func TestSharedAndExclusiveDoNotMix(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		c.granted(first)
		exclusive := func() error {
			_, err := c.call(acquireScript, c.keysFor("x:1"), "x:1", ttlMs, placeMs, memMs)
			return err
		}
		before := c.dump()
		require.ErrorContains(t, exclusive(), "WRONGTYPE")
		assert.Equal(t, before, c.dump())
		c.queued(second)
		require.NoError(t, c.rdb.Del(t.Context(), c.k.lock).Err())
		before = c.dump()
		require.ErrorContains(t, exclusive(), "WRONGTYPE", "the request does not overtake the waiter")
		assert.Equal(t, before, c.dump())
		assert.EqualValues(t, 2, c.release(second.owner, 0))

		c.table.granted("x:1")
		_, err := c.try(first, placeMs)
		require.ErrorContains(t, err, "WRONGTYPE")
		c.table.queued("y:1")
		c.table.expire()
		before = c.dump()
		_, err = c.try(first, placeMs)
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, before, c.dump())
	})
}
