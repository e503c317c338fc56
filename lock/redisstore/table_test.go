package redisstore

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// table is one lock on the shared server. Its methods call the scripts directly, as a client
// that waits in the queue does.
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

func (tb *table) forceKeys() []string {
	return append(all(&tb.k), tb.k.lock+stateEnd, tb.k.lock+metadataEnd)
}

// call runs a script, and then checks that every key has an expiry.
func (tb *table) call(s *redisnode.Script, keys []string, args ...any) (any, error) {
	tb.Helper()
	v, err := redis.NewScript(s.Source()).Run(tb.Context(), tb.rdb, keys, args...).Result()
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		left, failed := tb.rdb.Do(tb.Context(), "PTTL", key).Int64() // in ms, because some do not fit into a Duration
		require.NoError(tb, failed)
		if left == -1 && !tb.spoiled(key) {
			tb.Errorf("%s, a %s, has no end", key, tb.rdb.Type(tb.Context(), key).Val())
		}
	}
	return v, err
}

// spoiled reports whether the test itself has written a key.
func (tb *table) spoiled(key string) bool {
	return tb.rdb.Exists(tb.Context(), "spoiled:"+key).Val() == 1
}

func (tb *table) acquire(owner string, ttl, place int) any {
	tb.Helper()
	v, err := tb.call(acquireScript, tb.keysFor(owner), owner, ttl, place)
	require.NoError(tb, err)
	return v
}

// granted acquires, expects a grant, and returns the token.
func (tb *table) granted(owner string) string {
	tb.Helper()
	token := tb.acquire(owner, ttlMs, placeMs)
	require.IsType(tb, "", token)
	return token.(string)
}

// queued acquires and expects a place in the queue. It returns the token of the reply, and
// whether the owner is the first waiter.
func (tb *table) queued(owner string) (token string, head bool) {
	tb.Helper()
	return tb.queuedFor(owner, placeMs)
}

func (tb *table) queuedFor(owner string, place int) (token string, head bool) {
	tb.Helper()
	v, _ := tb.acquire(owner, ttlMs, place).([]any)
	require.Len(tb, v, 4)
	require.EqualValues(tb, taken, v[0])
	assert.Positive(tb, v[2].(int64))
	return v[1].(string), v[3].(int64) == 1
}

func (tb *table) release(owner string, tomb int) int64 {
	tb.Helper()
	keys, args := tb.keysFor(owner)[:fewestKeys], []any{owner}
	if tomb > 0 {
		keys, args = tb.keysFor(owner), append(args, tomb)
	}
	v, err := tb.call(releaseScript, keys, args...)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) force(token string) int64 {
	tb.Helper()
	v, err := tb.call(forceScript, tb.forceKeys(), token)
	require.NoError(tb, err)
	return v.(int64)
}

func (tb *table) value() string { return tb.rdb.Get(tb.Context(), tb.k.lock).Val() }

func (tb *table) queue() []string {
	return tb.rdb.LRange(tb.Context(), tb.k.queue, 0, -1).Val()
}

// places returns the owners that have a place. It checks that the length of each is stored.
func (tb *table) places() (owners []string) {
	lengths := map[string]bool{}
	for _, member := range tb.rdb.ZRange(tb.Context(), tb.k.places, 0, -1).Val() {
		if owner, ok := strings.CutSuffix(member, "}"); ok {
			lengths[owner] = true
		} else {
			owners = append(owners, member)
		}
	}
	assert.Len(tb, lengths, len(owners))
	for _, owner := range owners {
		assert.True(tb, lengths[owner], owner)
	}
	return owners
}

func (tb *table) pttl(key string) time.Duration { return tb.rdb.PTTL(tb.Context(), key).Val() }

// kill makes the places of waiting owners expire.
func (tb *table) kill(owners ...string) {
	for _, o := range owners {
		require.NoError(tb, tb.rdb.ZAddXX(tb.Context(), tb.k.places, redis.Z{Score: 1, Member: o}).Err())
	}
}

// expire makes the lock expire.
func (tb *table) expire() { require.NoError(tb, tb.rdb.Del(tb.Context(), tb.k.lock).Err()) }

// dump returns the serialized values of all keys of the lock.
func (tb *table) dump() map[string]string {
	all := map[string]string{}
	for _, key := range keysOf(tb, tb.rdb, tb.pre) {
		all[key] = tb.rdb.Dump(tb.Context(), key).Val()
	}
	return all
}

// signals subscribes to the channel of a client. The result returns the messages since its last
// call.
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

// message returns the message by which a script notifies an owner.
func message(owner, token string) string {
	return signals{}.ID(owner) + " " + token + " " + proofOf(owner, token)
}

// messageWith returns the message of a grant to an owner that asks for the state.
func messageWith(state, owner, token string) string {
	return signals{}.ID(owner) + " " + token + " " + proofOf(owner, token+" "+digest(state)) + " " + state
}

func rising(t testing.TB, tokens ...string) {
	t.Helper()
	var last uint64
	for _, text := range tokens {
		token, ok := parseToken(text)
		require.True(t, ok, "%q must be a token", text)
		require.Greater(t, token, last)
		last = token
	}
}
