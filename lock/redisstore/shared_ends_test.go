package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
// microsecond, and no millisecond longer: its end is rounded up.
func TestASharedLeaseLastsForItsTTL(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, _, _ ask) {
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

// What is left of a lease is told to the millisecond, rounded down, and 1 in its last
// one: of a lock that is taken, and to those who look.
func TestWhatIsLeftOfASharedLockIsNotMoreThanThereIs(t *testing.T) {
	each(t, func(t *testing.T, c *crowd, first, second, _ ask) {
		inLast, before := 0, 0
		for round := 0; inLast < 1 || before < 20; round++ {
			require.Less(t, round, 200, "the script runs often enough")
			c.granted(first)
			end := c.rdb.Time(t.Context()).Val().UnixMilli() + 10
			c.putEnd(c.k.lock, first.owner, float64(end))
			for _, l := range c.looks(second) {
				if l.from != l.to || l.from >= end {
					continue
				}
				left := max(end-l.from-1, 1)
				require.Equal(t, left, l.told, "to one who asks")
				require.Equal(t, left, l.shown, "to one who looks")
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

// glance is what is left of a lock in ms, by an answer to a request for it and by a look
// at it, between two readings of the server's clock in ms.
type glance struct{ from, told, shown, to int64 }

// looks asks for a lock until it is granted, or often.
func (c *crowd) looks(a ask) (all []glance) {
	c.Helper()
	inspect := []string{c.k.lock, c.k.token, c.k.queue, c.k.records}
	_, err := c.call(sharedInspectScript, inspect)
	require.NoError(c, err)
	asking, looking := redis.NewScript(sharedAcquireScript.source).Hash(), redis.NewScript(sharedInspectScript.source).Hash()
	pipe := c.rdb.Pipeline()
	for range 100 {
		pipe.Time(c.Context())
		pipe.EvalSha(c.Context(), asking, sharedKeysInOrder(&c.k, a.owner), a.owner, ttlMs, 0, memMs, a.mode, a.limit, a.meta, packMembers(a.members))
		pipe.EvalSha(c.Context(), looking, inspect)
		pipe.Time(c.Context())
	}
	answers, err := pipe.Exec(c.Context())
	require.NoError(c, err)
	for ; len(answers) > 0; answers = answers[4:] {
		told := answers[1].(*redis.Cmd).Val().([]any)
		if told[0] == int64(granted) {
			return all
		}
		holders := answers[2].(*redis.Cmd).Val().([]any)[4].([]any)
		if len(holders) == 0 {
			continue // it has just ended
		}
		all = append(all, glance{
			from:  answers[0].(*redis.TimeCmd).Val().UnixMilli(),
			told:  told[2].(int64),
			shown: holders[0].([]any)[1].(int64),
			to:    answers[3].(*redis.TimeCmd).Val().UnixMilli(),
		})
	}
	return all
}
