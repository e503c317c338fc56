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

// sharedTable is a table for the scripts of shared locks.
type sharedTable struct {
	*table
	k keys
}

// acquireArgs has the arguments of an acquire.
type acquireArgs struct {
	owner   string
	mode    string
	limit   int
	ttl     int // 0: ttlMs
	meta    string
	members []string
}

func newSharedTable(t testing.TB) *sharedTable { return sharedTableOn(t, shared.Server(t).Client(t)) }

func sharedTableOn(t testing.TB, rdb *redis.Client) *sharedTable {
	tb := tableOn(t, rdb)
	return &sharedTable{table: tb, k: *(&Store{prefix: tb.pre}).sharedKeys("n", "")}
}

func reads(owner string) acquireArgs  { return acquireArgs{owner: owner, mode: "r"} }
func writes(owner string) acquireArgs { return acquireArgs{owner: owner, mode: "w"} }

func permits(owner string, limit int) acquireArgs {
	return acquireArgs{owner: owner, mode: "p", limit: limit}
}

// wants returns a request for members. Each letter is the name of one member.
func wants(owner, members string) acquireArgs {
	list := strings.Split(members, "")
	return acquireArgs{owner: owner, mode: "m", limit: len(list), members: list}
}

// sharedKeysInOrder returns the keys in the order of the scripts.
func sharedKeysInOrder(k *keys, owner string) []string {
	return []string{k.lock, k.token, k.queue, k.places, k.records, k.members, k.tombstone + owner}
}

func (c *sharedTable) acquire(a acquireArgs, place int) []any {
	c.Helper()
	v, err := c.try(a, place)
	require.NoError(c, err)
	return v
}

func (c *sharedTable) try(a acquireArgs, place int) ([]any, error) {
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

// granted acquires, expects a grant, and returns the token.
func (c *sharedTable) granted(a acquireArgs) string {
	c.Helper()
	v := c.acquire(a, placeMs)
	require.Len(c, v, 2)
	require.EqualValues(c, granted, v[0])
	return v[1].(string)
}

// queued acquires and expects a place in the queue. It returns the token of the reply, the
// milliseconds until enough leases expire, and whether the owner must notice that.
func (c *sharedTable) queued(a acquireArgs) (token string, ms int64, head bool) {
	c.Helper()
	return c.takenFor(a, placeMs)
}

// refused acquires without waiting and expects that the lock is taken.
func (c *sharedTable) refused(a acquireArgs) (ms int64) {
	c.Helper()
	_, ms, _ = c.takenFor(a, 0)
	return ms
}

func (c *sharedTable) takenFor(a acquireArgs, place int) (token string, ms int64, head bool) {
	c.Helper()
	v := c.acquire(a, place)
	require.GreaterOrEqual(c, len(v), 4, "%v", v) // a fifth is the member that is taken
	require.EqualValues(c, taken, v[0])
	return v[1].(string), v[2].(int64), v[3].(int64) == 1
}

func (c *sharedTable) release(owner string, tomb int) int64 {
	c.Helper()
	v, err := c.call(sharedReleaseScript, sharedKeysInOrder(&c.k, owner), owner, tomb, memMs)
	require.NoError(c, err)
	return v.(int64)
}

// renews reports whether a renewal finds the lease with that owner and token.
func (c *sharedTable) renews(owner, token string) bool {
	c.Helper()
	v, err := c.call(sharedRenewScript, []string{c.k.lock, c.k.records, c.k.members}, ttlMs, owner+" "+token)
	require.NoError(c, err)
	return len(v.([]any)) == 0
}

// endOf returns the expiry of a key in ms. A server before Redis 7 does not report it, so
// endOf adds PTTL to the time. It takes the highest of several sums, because the millisecond
// may change between the two.
func (c *sharedTable) endOf(key string) (end int64) {
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

// holders returns the owners of unexpired leases.
func (c *sharedTable) holders() []string {
	c.Helper()
	// ZRANGE supports this only since Redis 6.2.
	list, err := c.rdb.Do(c.Context(), "zrangebyscore", c.k.lock, fmt.Sprintf("(%d", time.Now().UnixMilli()), "+inf").StringSlice()
	require.NoError(c, err)
	slices.Sort(list)
	return list
}

func (c *sharedTable) queue() []string { return c.rdb.ZRange(c.Context(), c.k.queue, 0, -1).Val() }

func (c *sharedTable) end(owner string) time.Duration {
	c.Helper()
	return time.Until(time.UnixMilli(int64(c.rdb.ZScore(c.Context(), c.k.lock, owner).Val()) - 1)) // the expiry is rounded up
}

// expire makes the leases of owners expire.
func (c *sharedTable) expire(owners ...string) {
	c.Helper()
	for _, o := range owners {
		require.Equal(c, int64(1), c.rdb.ZAddArgs(c.Context(), c.k.lock, redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{{Score: 1, Member: o}}}).Val(), o)
	}
}

// token returns the token of a holder.
func (c *sharedTable) token(owner string) string {
	c.Helper()
	fields := strings.Fields(c.rdb.HGet(c.Context(), c.k.records, owner).Val())
	require.GreaterOrEqual(c, len(fields), 3, "a record of %s", owner)
	return fields[1]
}

// empty checks that only the last token remains.
func (c *sharedTable) empty() {
	c.Helper()
	assert.Equal(c, []string{c.k.token}, keysOf(c, c.rdb, c.pre))
}

func zOf(owner string, end float64) redis.Z { return redis.Z{Member: owner, Score: end} }
