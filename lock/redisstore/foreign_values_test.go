package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// The release of a lock without waiters does not read the last token.
func TestReleaseDoesNotNeedTheToken(t *testing.T) {
	for _, last := range []string{"text", "9007199254740991"} {
		tb := newTable(t)
		tb.granted("a:1")
		require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, last, time.Minute).Err())
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		assert.Empty(t, tb.value())

		require.NoError(t, tb.rdb.Del(t.Context(), tb.k.token).Err())
		token := tb.granted("b:1")
		require.NoError(t, tb.rdb.Set(t.Context(), tb.k.token, last, time.Minute).Err())
		assert.EqualValues(t, 1, tb.force(token))
		assert.Empty(t, tb.value())

		each(t, func(t *testing.T, c *sharedTable, first, _, third acquireArgs) {
			c.granted(first)
			c.granted(third)
			require.NoError(t, c.rdb.Set(t.Context(), c.k.token, last, time.Minute).Err())
			assert.EqualValues(t, 1, c.release(first.owner, 0))
			assert.EqualValues(t, 1, c.release(third.owner, 0))
			c.empty()
		})
	}
}

// A forced release of a shared lock without a holder returns WRONGTYPE.
func TestForceAFreeSharedLockWithForeignValues(t *testing.T) {
	for i := range 6 {
		c := newSharedTable(t)
		bad := sharedKeysInOrder(&c.k, "")[i]
		require.NoError(t, c.rdb.SAdd(t.Context(), bad, "something").Err())
		require.NoError(t, c.rdb.Set(t.Context(), "spoiled:"+bad, 1, time.Minute).Err())
		_, err := c.call(sharedForceScript, sharedKeysInOrder(&c.k, "")[:6], "1", memMs, "0")
		require.ErrorContains(t, err, "WRONGTYPE")
	}
}

// An inspection never reports more than the TTL of a new lease.
func TestExpiresInIsAtMostTheRestOfTheLease(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, _ acquireArgs) {
		c.granted(first)
		v, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
		require.NoError(t, err)
		holder := v.([]any)[4].([]any)[0].([]any)
		assert.LessOrEqual(t, holder[1], int64(ttlMs))
	})
}

// extremeEnds are expiry times that another program has written. Some are too far away for a
// time.Duration of 292 years, others for the expiry of a key, which is below 2^63 ms.
var extremeEnds = []float64{1.2e13, 1e15, 1e19, math.Inf(1)}

const year = 365 * 24 * time.Hour

func (tb *table) putEnd(key, owner string, end float64) {
	tb.Helper()
	changed := tb.rdb.ZAddArgs(tb.Context(), key, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: end, Member: owner}}})
	require.Equal(tb, int64(1), changed.Val(), owner)
}

// A lease that never expires blocks only the requests that conflict with it. A place that
// never expires can be served.
func TestSharedLeasesWithoutAnExpiry(t *testing.T) {
	for _, end := range extremeEnds {
		each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
			token := c.granted(first)
			c.granted(third)
			c.putEnd(c.k.lock, third.owner, end)
			a, err := parseAcquired(false, redisconn.Reply{Value: c.acquire(second, placeMs)})
			require.NoError(t, err)
			assert.Equal(t, taken, a.verdict)
			assert.Greater(t, a.expiresIn, year)
			assert.True(t, c.renews(first.owner, token), "the expiry of another lease has no effect")
			assert.Greater(t, c.pttl(c.k.lock), year)

			reply, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.places, c.k.records})
			require.NoError(t, err)
			info, _, err := parseShared(reply)
			require.NoError(t, err)
			assert.Greater(t, info.Holders[1].ExpiresIn, year)

			c.putEnd(c.k.places, second.owner, end)
			assert.EqualValues(t, 1, c.release(first.owner, 0))
			assert.EqualValues(t, 1, c.release(third.owner, 0))
			assert.Equal(t, []string{second.owner}, c.holders())
			around(t, (placeMs+1)*time.Millisecond, c.end(second.owner), "the rest of a place is at most its length")
			assert.True(t, c.renews(second.owner, c.token(second.owner)))
			assert.EqualValues(t, 1, c.release(second.owner, 0))
			c.empty()
		})
	}
}

// A place whose length is missing or invalid is served.
func TestAPlaceWithAnInvalidLengthIsServed(t *testing.T) {
	for _, length := range []float64{math.Inf(1), math.Inf(-1), 0, 1, -0.5, -1.5, -1e300, 1e300, math.NaN()} {
		each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
			c.granted(first)
			c.granted(third)
			c.queued(second)
			if math.IsNaN(length) {
				require.EqualValues(t, 1, c.rdb.ZRem(t.Context(), c.k.places, second.owner+"}").Val())
			} else {
				c.putEnd(c.k.places, second.owner+"}", length)
			}
			assert.EqualValues(t, 1, c.release(first.owner, 0))
			assert.EqualValues(t, 1, c.release(third.owner, 0))
			assert.Zero(t, c.rdb.ZCard(t.Context(), c.k.queue).Val(), "the place was served, at least for a millisecond")
			assert.LessOrEqual(t, c.end(second.owner), (placeMs+1)*time.Millisecond)
		})
		tb := newTable(t)
		tb.granted("a:1")
		tb.queued("b:1")
		if math.IsNaN(length) {
			require.EqualValues(t, 1, tb.rdb.ZRem(t.Context(), tb.k.places, "b:1}").Val())
		} else {
			tb.putEnd(tb.k.places, "b:1}", length)
		}
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		assert.Empty(t, tb.queue(), "b:1 had the lock, at least for a millisecond")
		assert.LessOrEqual(t, tb.pttl(tb.k.lock), placeMs*time.Millisecond)
	}
}

func TestAPlaceWithoutAnExpiryIsServed(t *testing.T) {
	for _, end := range extremeEnds {
		tb := newTable(t)
		tb.granted("a:1")
		tb.queued("b:1")
		tb.putEnd(tb.k.places, "b:1", end)
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		assert.True(t, strings.HasPrefix(tb.value(), "b:1 "))
		around(t, placeMs*time.Millisecond, tb.pttl(tb.k.lock), "the rest of a place is at most its length")
		tb.granted("b:1")
		around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "the lease is valid like any other")
	}
}
