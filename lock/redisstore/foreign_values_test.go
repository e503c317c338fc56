package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	}
}

// A forced release of a shared lock returns WRONGTYPE and changes nothing.
func TestForceASharedLockWithForeignValues(t *testing.T) {
	for i := range 6 {
		each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
			token := c.granted(first)
			c.queued(second)
			bad := sharedKeysInOrder(&c.k, "")[i]
			require.NoError(t, c.rdb.Del(t.Context(), bad).Err())
			require.NoError(t, c.rdb.SAdd(t.Context(), bad, first.owner, second.owner).Err())
			require.NoError(t, c.rdb.Set(t.Context(), "spoiled:"+bad, 1, time.Minute).Err())
			before := c.dump()
			_, err := c.call(sharedForceScript, sharedKeysInOrder(&c.k, "")[:6], token, memMs, "0")
			require.ErrorContains(t, err, "WRONGTYPE")
			assert.Equal(t, before, c.dump(), "the script wrote nothing")
		})
	}
}

// The same holds if the lock has no holder.
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
		v, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.records})
		require.NoError(t, err)
		holder := v.([]any)[4].([]any)[0].([]any)
		assert.LessOrEqual(t, holder[1], int64(ttlMs))
	})
}
