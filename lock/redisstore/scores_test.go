package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ends that somebody has written: too far for a time.Duration of 292 years, and too
// far for the end of a key, which is below 2^63 ms.
var strangeEnds = []float64{1.2e13, 1e15, 1e19, math.Inf(1)}

const year = 365 * 24 * time.Hour

func (tb *table) putEnd(key, owner string, end float64) {
	tb.Helper()
	changed := tb.rdb.ZAddArgs(tb.Context(), key, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: end, Member: owner}}})
	require.Equal(tb, int64(1), changed.Val(), owner)
}

// A lease that never ends is in the way of those that it is in the way of, and of
// nobody else; a place that never ends can be served.
func TestSharedLocksWithoutAnEnd(t *testing.T) {
	for _, end := range strangeEnds {
		each(t, func(t *testing.T, c *crowd, first, second, third ask) {
			token := c.granted(first)
			c.granted(third)
			c.putEnd(c.k.lock, third.owner, end)
			a, err := parseAcquired(any(c.acquire(second, placeMs)))
			require.NoError(t, err)
			assert.Equal(t, taken, a.verdict)
			assert.Greater(t, a.expiresIn, year)
			assert.True(t, c.renews(first.owner, token), "the end of another's lease is not its own")
			assert.Greater(t, c.pttl(c.k.lock), year)

			reply, err := c.call(sharedInspectScript, []string{c.k.lock, c.k.token, c.k.queue, c.k.records})
			require.NoError(t, err)
			info, _, err := parseShared(reply)
			require.NoError(t, err)
			assert.Greater(t, info.Holders[1].ExpiresIn, year)

			c.putEnd(c.k.places, second.owner, end)
			assert.EqualValues(t, 1, c.release(first.owner, 0))
			assert.EqualValues(t, 1, c.release(third.owner, 0))
			assert.Equal(t, []string{second.owner}, c.holders())
			assert.True(t, c.renews(second.owner, c.token(second.owner)))
			assert.EqualValues(t, 1, c.release(second.owner, 0))
			c.empty()
		})
	}
}

func TestAPlaceWithoutAnEndIsServed(t *testing.T) {
	for _, end := range strangeEnds {
		tb := newTable(t)
		tb.granted("a:1")
		tb.queued("b:1")
		tb.putEnd(tb.k.places, "b:1", end)
		assert.EqualValues(t, 1, tb.release("a:1", 0))
		assert.True(t, strings.HasPrefix(tb.value(), "b:1 "))
		assert.Greater(t, tb.pttl(tb.k.lock), year)
		tb.granted("b:1")
		around(t, ttlMs*time.Millisecond, tb.pttl(tb.k.lock), "a lease like any other")
	}
}
