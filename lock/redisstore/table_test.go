package redisstore

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table is one lock on the shared server and the scripts, called directly: as a
// client calls them that queues.
type table struct {
	testing.TB
	rdb *redis.Client
	k   keys
	pre string
}

const (
	ttlMs   = 30_000
	placeMs = 10_000
	tombMs  = 60_000
	memMs   = 600_000
)

func newTable(t testing.TB) *table { return tableOn(t, shared.Server(t).Client(t)) }

func tableOn(t testing.TB, rdb *redis.Client) *table {
	prefix := rand.Text() + ":"
	return &table{TB: t, rdb: rdb, pre: prefix, k: *(&Store{prefix: prefix}).keys("n", "")}
}

func (tb *table) keysFor(owner string) []string {
	k := tb.k
	k.tombstone += owner
	return all(&k)
}

// call runs a script and then checks what holds after each: no key is without an
// end.
func (tb *table) call(s *script, keys []string, args ...any) (any, error) {
	tb.Helper()
	v, err := redis.NewScript(s.source).Run(tb.Context(), tb.rdb, keys, args...).Result()
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		left, failed := tb.rdb.Do(tb.Context(), "PTTL", key).Int64() // in ms: a Duration is too short for some
		require.NoError(tb, failed)
		if left < 0 && !tb.spoiled(key) {
			tb.Errorf("%s, a %s, has no end", key, tb.rdb.Type(tb.Context(), key).Val())
		}
	}
	return v, err
}

// spoiled tells keys that the test itself has put there.
func (tb *table) spoiled(key string) bool {
	return tb.rdb.Exists(tb.Context(), "spoiled:"+key).Val() == 1
}

func (tb *table) acquire(owner string, ttl, place int) []any {
	tb.Helper()
	v, err := tb.call(acquireScript, tb.keysFor(owner), owner, ttl, place, memMs)
	require.NoError(tb, err)
	return v.([]any)
}

// granted acquires and returns the token.
func (tb *table) granted(owner string) string {
	tb.Helper()
	v := tb.acquire(owner, ttlMs, placeMs)
	require.Len(tb, v, 2)
	require.EqualValues(tb, granted, v[0])
	return v[1].(string)
}

// queued acquires and must wait; it returns the mark and whether it is the head.
func (tb *table) queued(owner string) (mark string, head bool) {
	tb.Helper()
	return tb.queuedFor(owner, placeMs)
}

func (tb *table) queuedFor(owner string, place int) (mark string, head bool) {
	tb.Helper()
	v := tb.acquire(owner, ttlMs, place)
	require.Len(tb, v, 4)
	require.EqualValues(tb, taken, v[0])
	assert.Positive(tb, v[2].(int64))
	return v[1].(string), v[3].(int64) == 1
}

func (tb *table) release(owner string, tomb int) int64 {
	tb.Helper()
	v, err := tb.call(releaseScript, tb.keysFor(owner), owner, tomb, memMs)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) force(token string) int64 {
	tb.Helper()
	v, err := tb.call(forceScript, all(&tb.k)[:4], token, memMs)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) value() string { return tb.rdb.Get(tb.Context(), tb.k.lock).Val() }

func (tb *table) queue() []string {
	return tb.rdb.LRange(tb.Context(), tb.k.queue, 0, -1).Val()
}

func (tb *table) places() []string {
	return tb.rdb.ZRange(tb.Context(), tb.k.places, 0, -1).Val()
}

func (tb *table) pttl(key string) time.Duration { return tb.rdb.PTTL(tb.Context(), key).Val() }

// kill ends the place of an owner that is queued.
func (tb *table) kill(owners ...string) {
	for _, o := range owners {
		require.NoError(tb, tb.rdb.ZAddXX(tb.Context(), tb.k.places, redis.Z{Score: 1, Member: o}).Err())
	}
}

// expire ends the lock as time would.
func (tb *table) expire() { require.NoError(tb, tb.rdb.Del(tb.Context(), tb.k.lock).Err()) }

// dump is all that the server has of the lock, to the bit.
func (tb *table) dump() map[string]string {
	all := map[string]string{}
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		all[key] = tb.rdb.Dump(tb.Context(), key).Val()
	}
	return all
}

// signals subscribes to the channel of an owner and returns what came until
// drained.
func (tb *table) signals(client string) func() []string {
	ps := tb.rdb.Subscribe(tb.Context(), tb.pre+client)
	tb.Cleanup(func() { ps.Close() })
	_, err := ps.Receive(tb.Context())
	require.NoError(tb, err)
	return func() (got []string) {
		require.NoError(tb, tb.rdb.Publish(tb.Context(), tb.pre+client, "end").Err())
		for {
			m, err := ps.ReceiveMessage(tb.Context())
			require.NoError(tb, err)
			if m.Payload == "end" {
				return got
			}
			got = append(got, m.Payload)
		}
	}
}

func rising(t testing.TB, tokens ...string) {
	t.Helper()
	var last uint64
	for _, text := range tokens {
		token, ok := parseToken(text)
		require.True(t, ok, "%q is a token", text)
		require.Greater(t, token, last)
		last = token
	}
}
