package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The release of a shared lock without waiters does not read the last token.
func TestReleaseOfASharedLockDoesNotNeedTheToken(t *testing.T) {
	for _, last := range []string{"text", "9007199254740991"} {
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

// The release of a lease that expired a millisecond ago changes nothing. The first waiter
// serves the queue when it polls.
func TestReleaseIgnoresAnExpiredSharedLease(t *testing.T) {
	for _, waits := range []bool{false, true} {
		each(t, func(t *testing.T, c *sharedTable, first, second, third acquireArgs) {
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

// A lease lasts for its whole TTL from the microsecond at which the server granted it. Its
// expiry is rounded up to a millisecond.
func TestASharedLeaseLastsForItsTTL(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, _, _ acquireArgs) {
		var token string
		lasts := func(give func()) {
			before, err := c.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			give()
			end := c.rdb.ZScore(t.Context(), c.k.lock, first.owner).Val()
			after, err := c.rdb.Time(t.Context()).Result()
			require.NoError(t, err)
			assert.GreaterOrEqual(t, int64(end)*1000, before.UnixMicro()+ttlMs*1000)
			assert.LessOrEqual(t, int64(end), after.UnixMilli()+ttlMs+1)
		}
		for range 20 {
			lasts(func() { token = c.granted(first) })
			lasts(func() { assert.True(t, c.renews(first.owner, token)) })
		}
	})
}

// The scripts report the rest of a lease in milliseconds, rounded down, but at least 1: to a
// request that finds the lock taken, and to an inspection.
func TestExpiresInOfASharedLockIsAtMostTheRestOfTheLease(t *testing.T) {
	each(t, func(t *testing.T, c *sharedTable, first, second, _ acquireArgs) {
		inLast, before := 0, 0
		for round := 0; inLast < 1 || before < 20; round++ {
			require.Less(t, round, 200, "the replies cover the last milliseconds of a lease")
			c.granted(first)
			// A fast machine answers all requests within a few milliseconds, and a slow one only the first.
			end := c.rdb.Time(t.Context()).Val().UnixMilli() + 1 + int64(round%20)
			c.putEnd(c.k.lock, first.owner, float64(end))
			for _, l := range c.readRests(second) {
				if l.from != l.to || l.from >= end {
					continue
				}
				left := max(end-l.from-1, 1)
				require.Equal(t, left, l.acquire, "reported to a request")
				require.Equal(t, left, l.inspect, "reported to an inspection")
				if end-l.from > 1 {
					before++
				} else {
					inLast++
				}
			}
			c.release(second.owner, 0)
		}
	})
}

// rest is the rest of a lease in ms, as an acquire and an inspection report it, between two
// readings of the server's clock in ms.
type rest struct{ from, acquire, inspect, to int64 }

// readRests sends 100 requests for a lock, and returns the rests until one is granted.
func (c *sharedTable) readRests(a acquireArgs) (all []rest) {
	c.Helper()
	inspect := []string{c.k.lock, c.k.token, c.k.queue, c.k.records}
	_, err := c.call(sharedInspectScript, inspect)
	require.NoError(c, err)
	acquireSHA, inspectSHA := redis.NewScript(sharedAcquireScript.Source()).Hash(), redis.NewScript(sharedInspectScript.Source()).Hash()
	pipe := c.rdb.Pipeline()
	for range 100 {
		pipe.Time(c.Context())
		pipe.EvalSha(c.Context(), acquireSHA, sharedKeysInOrder(&c.k, a.owner), a.owner, ttlMs, 0, memMs, a.mode, a.limit, a.meta, packMembers(a.members))
		pipe.EvalSha(c.Context(), inspectSHA, inspect)
		pipe.Time(c.Context())
	}
	answers, err := pipe.Exec(c.Context())
	require.NoError(c, err)
	for ; len(answers) > 0; answers = answers[4:] {
		acquired := answers[1].(*redis.Cmd).Val().([]any)
		if acquired[0] == int64(granted) {
			return all
		}
		holders := answers[2].(*redis.Cmd).Val().([]any)[4].([]any)
		if len(holders) == 0 {
			continue // the lease has just expired
		}
		all = append(all, rest{
			from:    answers[0].(*redis.TimeCmd).Val().UnixMilli(),
			acquire: acquired[2].(int64),
			inspect: holders[0].([]any)[1].(int64),
			to:      answers[3].(*redis.TimeCmd).Val().UnixMilli(),
		})
	}
	return all
}
