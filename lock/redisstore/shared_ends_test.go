package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who gives a shared lock back for which nobody waits needs no token.
func TestASharedLockIsFreedWhateverBecameOfItsToken(t *testing.T) {
	for _, last := range []string{"text", "9007199254740991"} {
		each(t, func(t *testing.T, c *crowd, first, _, third ask) {
			c.granted(first)
			c.granted(third)
			require.NoError(t, c.rdb.Set(t.Context(), c.k.token, last, time.Minute).Err())
			assert.EqualValues(t, 1, c.release(first.owner, 0))
			assert.EqualValues(t, 1, c.release(third.owner, 0))
			c.empty()
		})
	}
}

// A lease that ended a millisecond ago is not its owner's any more. Its release changes
// nothing: whoever waits asks for itself.
func TestASharedLeaseThatHasEndedIsNotReleased(t *testing.T) {
	for _, waits := range []bool{false, true} {
		each(t, func(t *testing.T, c *crowd, first, second, third ask) {
			c.granted(first)
			c.granted(third)
			if waits {
				c.queued(second)
			}
			now, err := c.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			c.expire(third.owner)
			c.putEnd(c.k.lock, first.owner, float64(now.UnixMilli()-1))
			before := c.dump()
			assert.Zero(t, c.release(first.owner, 0))
			assert.Equal(t, before, c.dump())
			c.granted(second)
		})
	}
}

// A lease lasts for its whole TTL from the moment at which the server gave it, to the
// microsecond: its end is rounded up.
func TestASharedLeaseIsNotShorterThanItsTTL(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, _, _ ask) {
		var token string
		lasts := func(give func()) {
			before, err := c.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			give()
			end := c.rdb.ZScore(t.Context(), c.k.lock, first.owner).Val()
			assert.GreaterOrEqual(t, int64(end)*1000, before.UnixMicro()+ttlMs*1000)
		}
		for range 20 {
			lasts(func() { token = c.granted(first) })
			lasts(func() { assert.True(t, c.renews(first.owner, token)) })
		}
	})
}
