package redisstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd is a table for the scripts of shared locks.
type crowd struct {
	*table
	k keys
}

// ask is what an owner asks for.
type ask struct {
	owner   string
	mode    string
	limit   int
	ttl     int // 0: ttlMs
	meta    string
	members []string
}

func newCrowd(t testing.TB) *crowd { return crowdOn(t, shared.Server(t).Client(t)) }

func crowdOn(t testing.TB, rdb *redis.Client) *crowd {
	tb := tableOn(t, rdb)
	return &crowd{table: tb, k: *(&Store{prefix: tb.pre}).sharedKeys("n", "")}
}

func reads(owner string) ask  { return ask{owner: owner, mode: "r"} }
func writes(owner string) ask { return ask{owner: owner, mode: "w"} }

func permits(owner string, limit int) ask { return ask{owner: owner, mode: "p", limit: limit} }

// wants asks for members, named by one letter each.
func wants(owner, members string) ask {
	list := strings.Split(members, "")
	return ask{owner: owner, mode: "m", limit: len(list), members: list}
}

// sharedKeysInOrder returns the keys in the order of the scripts.
func sharedKeysInOrder(k *keys, owner string) []string {
	return []string{k.lock, k.token, k.queue, k.places, k.records, k.members, k.tombstone + owner}
}

func (c *crowd) acquire(a ask, place int) []any {
	c.Helper()
	v, err := c.try(a, place)
	require.NoError(c, err)
	return v
}

func (c *crowd) try(a ask, place int) ([]any, error) {
	c.Helper()
	if a.ttl == 0 {
		a.ttl = ttlMs
	}
	v, err := c.call(sharedAcquireScript, sharedKeysInOrder(&c.k, a.owner),
		a.owner, a.ttl, place, memMs, a.mode, a.limit, a.meta, packMembers(a.members))
	if err != nil {
		return nil, err
	}
	return v.([]any), nil
}

// granted acquires and returns the token.
func (c *crowd) granted(a ask) string {
	c.Helper()
	v := c.acquire(a, placeMs)
	require.Len(c, v, 2)
	require.EqualValues(c, granted, v[0])
	return v[1].(string)
}

// queued acquires and must wait; it returns the mark, the ms and whether it is the
// head.
func (c *crowd) queued(a ask) (mark string, ms int64, head bool) {
	c.Helper()
	return c.takenFor(a, placeMs)
}

// refused tries and must not get it.
func (c *crowd) refused(a ask) (ms int64) {
	c.Helper()
	_, ms, _ = c.takenFor(a, 0)
	return ms
}

func (c *crowd) takenFor(a ask, place int) (mark string, ms int64, head bool) {
	c.Helper()
	v := c.acquire(a, place)
	require.Len(c, v, 4, "%v", v)
	require.EqualValues(c, taken, v[0])
	return v[1].(string), v[2].(int64), v[3].(int64) == 1
}

func (c *crowd) release(owner string, tomb int) int64 {
	c.Helper()
	v, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, owner), owner, tomb, memMs)
	require.NoError(c, err)
	return v.(int64)
}

// renews reports whether an owner has its lease by that token.
func (c *crowd) renews(owner, token string) bool {
	c.Helper()
	v, err := c.call(sharedRenewScript, []string{c.k.lock, c.k.records, c.k.members}, ttlMs, owner+" "+token)
	require.NoError(c, err)
	return len(v.([]any)) == 0
}

// endOf returns when a key ends, in ms. A server that cannot tell, as none can before
// Redis 7, tells its clock and what is left by it, which may be in the next millisecond.
func (c *crowd) endOf(key string) (end int64) {
	c.Helper()
	at, err := c.rdb.PExpireTime(c.Context(), key).Result()
	if !redis.HasErrorPrefix(err, "unknown command") {
		require.NoError(c, err)
		return at.Milliseconds()
	}
	for range 20 {
		sum, err := c.rdb.Eval(c.Context(), `local now = redis.call('TIME')
			return now[1] * 1000 + math.floor(now[2] / 1000) + redis.call('PTTL', KEYS[1])`, []string{key}).Int64()
		require.NoError(c, err)
		end = max(end, sum)
	}
	return end
}

// holders returns the owners whose leases last.
func (c *crowd) holders() []string {
	c.Helper()
	// ZRANGE does this since Redis 6.2 only.
	list, err := c.rdb.Do(c.Context(), "zrangebyscore", c.k.lock, fmt.Sprintf("(%d", time.Now().UnixMilli()), "+inf").StringSlice()
	require.NoError(c, err)
	slices.Sort(list)
	return list
}

func (c *crowd) queue() []string { return c.rdb.ZRange(c.Context(), c.k.queue, 0, -1).Val() }

func (c *crowd) end(owner string) time.Duration {
	c.Helper()
	return time.Until(time.UnixMilli(int64(c.rdb.ZScore(c.Context(), c.k.lock, owner).Val()) - 1)) // what is rounded up
}

// expire ends the leases of owners as time would.
func (c *crowd) expire(owners ...string) {
	c.Helper()
	for _, o := range owners {
		require.Equal(c, int64(1), c.rdb.ZAddArgs(c.Context(), c.k.lock, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: 1, Member: o}}}).Val(), o)
	}
}

// token returns that of a holder.
func (c *crowd) token(owner string) string {
	c.Helper()
	fields := strings.Fields(c.rdb.HGet(c.Context(), c.k.records, owner).Val())
	require.GreaterOrEqual(c, len(fields), 3, "a record of %s", owner)
	return fields[1]
}

// empty checks that nothing is left but the last token.
func (c *crowd) empty() {
	c.Helper()
	assert.Equal(c, []string{c.k.token}, keysOf(c, c.rdb, c.pre))
}

func zOf(owner string, end float64) redis.Z { return redis.Z{Member: owner, Score: end} }
