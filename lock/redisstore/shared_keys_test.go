package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSharedTokensThatCannotRiseGrantNothing(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		for _, last := range []string{"text", "9007199254740991", "99999999999999999999"} {
			require.NoError(t, c.rdb.Set(t.Context(), c.k.token, last, time.Minute).Err())
			before := c.dump()
			_, err := c.try(first, placeMs)
			require.ErrorContains(t, err, "token")
			assert.Equal(t, before, c.dump())
		}
		ahead := uint64(time.Now().Add(time.Hour).UnixMicro())
		require.NoError(t, c.rdb.Set(t.Context(), c.k.token, ahead, time.Hour).Err())
		assert.Equal(t, strconv.FormatUint(ahead+1, 10), c.granted(first))
		around(t, 70*time.Minute, c.pttl(c.k.token))
		latest, _, _ := c.queued(second)
		assert.Equal(t, strconv.FormatUint(ahead+1, 10), latest)
		require.NoError(t, c.rdb.Set(t.Context(), c.k.token, "text", time.Minute).Err())
		before := c.dump()
		_, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, first.owner), first.owner, tombMs, memMs)
		require.ErrorContains(t, err, "token")
		assert.Equal(t, before, c.dump(), "no waiter has lost its position")
	})
}

func TestForeignValuesAtTheKeysOfASharedLock(t *testing.T) {
	for i := range 6 {
		each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
			token := c.granted(first)
			c.queued(second)
			bad := sharedKeysInOrder(&c.k, "")[i]
			require.NoError(t, c.rdb.Del(t.Context(), bad).Err())
			require.NoError(t, c.rdb.SAdd(t.Context(), bad, first.owner, second.owner).Err())
			require.NoError(t, c.rdb.Set(t.Context(), "spoiled:"+bad, 1, time.Minute).Err())
			before := c.dump()
			_, err := c.call(sharedForceScript, sharedKeysInOrder(&c.k, "")[:6], token, memMs, "0")
			require.ErrorContains(t, err, "WRONGTYPE")
			for _, a := range []acquireArgs{first, second, third} {
				for _, place := range []int{0, placeMs} {
					_, err := c.try(a, place)
					require.ErrorContains(t, err, "WRONGTYPE")
					assert.Equal(t, before, c.dump(), "the script wrote nothing")
				}
				_, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, a.owner), a.owner, tombMs, memMs)
				require.ErrorContains(t, err, "WRONGTYPE")
				assert.Equal(t, before, c.dump(), "the script wrote nothing")
			}
		})
	}
}

func TestForeignSortedSetsAreRejected(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, _ acquireArgs) {
		require.NoError(t, c.rdb.ZAdd(t.Context(), c.k.lock, zOf("a:1", 17), zOf("b", 1e18)).Err())
		require.NoError(t, c.rdb.Set(t.Context(), "spoiled:"+c.k.lock, 1, time.Minute).Err())
		before := c.dump()
		_, err := c.try(first, placeMs)
		require.ErrorContains(t, err, "WRONGTYPE")
		assert.EqualValues(t, 0, c.release("nobody:1", 0))
		assert.Equal(t, before, c.dump())
	})
}

func TestForceASharedLock(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
		signals := c.signals("a")
		low := c.granted(first)
		high := c.granted(third)
		c.queued(second)
		force := func(token string) any {
			v, err := c.call(sharedForceScript, sharedKeysInOrder(&c.k, "")[:6], token, memMs, "0")
			require.NoError(t, err)
			assert.Empty(t, v.([]any)[1])
			return v.([]any)[0]
		}
		before := c.dump()
		assert.EqualValues(t, 0, force("1"))
		assert.Equal(t, before, c.dump())
		assert.EqualValues(t, 1, force(low), "one holder had a token up to this one")
		assert.Equal(t, []string{message("a:1", "0")}, signals(), "the holder gets a signal")
		assert.Contains(t, c.holders(), third.owner)
		assert.EqualValues(t, 1, force(high))
		assert.Equal(t, []string{second.owner}, c.holders(), "the waiters are served")
		assert.EqualValues(t, 0, force(high), "a duplicate does not affect the next holders")
		assert.EqualValues(t, 1, force(c.token(second.owner)))
		c.empty()
	})
}

func TestInspectASharedLock(t *testing.T) {
	c := newSharedTable(t)
	see := func() []any {
		v, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
		require.NoError(t, err)
		return v.([]any)
	}
	assert.Equal(t, []any{int64(0), int64(0), nil, nil, []any{}, int64(0), []any{}}, see())
	var tokens []string
	for i := range 21 {
		a := permits(fmt.Sprintf("o:%d", i), 21)
		a.ttl, a.meta = ttlMs+(i*7)%20*1000, fmt.Sprint("holder\n", i)
		tokens = append(tokens, c.granted(a))
	}
	for i := range 101 {
		a := permits(fmt.Sprintf("w%d:1", i), 21)
		a.meta = fmt.Sprint("waiter\n", i)
		c.queued(a)
	}
	c.expire("o:3")
	before := c.dump()
	v := see()
	assert.Equal(t, before, c.dump())
	assert.EqualValues(t, 20, v[0])
	assert.EqualValues(t, 101, v[1])
	assert.Equal(t, tokens[20], v[2])
	assert.Equal(t, tokens[20], v[3])
	require.Len(t, v[4], 16)
	tokens = slices.Delete(tokens, 3, 4)
	for i, h := range v[4].([]any) {
		assert.Equal(t, tokens[i], h.([]any)[0], "the holders are in the order of their grants")
	}
	first := v[4].([]any)[0].([]any)
	assert.InDelta(t, ttlMs, first[1], 2000)
	assert.Equal(t, []any{"p", int64(1), "holder\n0", "o"}, first[2:], "it has one permit")
	require.Len(t, v[6], 100)
	for i, w := range v[6].([]any) {
		w := w.([]any)
		assert.Equal(t, []any{"p", fmt.Sprint("waiter\n", i), fmt.Sprint("w", i)}, w[:3], "the waiters are in the order of the queue")
		assert.InDelta(t, 0, w[3], 2000)
		assert.Positive(t, w[3])
	}
	require.NoError(t, c.rdb.HSet(t.Context(), c.k.records, "w0:1", "p 0 21/3 three permits").Err())
	require.NoError(t, c.rdb.HDel(t.Context(), c.k.records, "w1:1").Err())
	waiters := see()[6].([]any)
	assert.Len(t, waiters, 99, "a waiter without a record is left out")
	assert.Equal(t, []any{"p", "three permits", "w0"}, waiters[0].([]any)[:3])
	require.NoError(t, c.rdb.ZAdd(t.Context(), c.k.lock, redis.Z{Member: "stranger", Score: 1e15}).Err())
	_, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
	require.ErrorContains(t, err, "WRONGTYPE")
}

// An inspection reads the thousand holders whose leases expire first.
func TestInspectALockWithManyHolders(t *testing.T) {
	c := newSharedTable(t)
	c.granted(permits("o:0", 5000))
	pipe := c.rdb.Pipeline()
	for i := 1; i <= 1000; i++ {
		owner := fmt.Sprintf("o:%d", i)
		pipe.ZAdd(t.Context(), c.k.lock, redis.Z{Member: owner, Score: float64(time.Now().UnixMilli() + ttlMs + int64(i)*1000)})
		pipe.HSet(t.Context(), c.k.records, owner, fmt.Sprintf("p %d 5000 ", 9_000_000_000_000_000+int64(i)))
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	v, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
	require.NoError(t, err)
	assert.EqualValues(t, 1001, v.([]any)[0], "the number includes all holders")
	assert.Equal(t, "9000000000000999", v.([]any)[3], "the highest token of the thousand holders")
	assert.Len(t, v.([]any)[4], 16)
}
