package redisson

import (
	"fmt"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

// The owners of these tests.
const (
	ann, bob = "client-1:ann", "client-2:bob"
)

// dump returns all keys with their values. Times that are within two seconds of a whole number of
// seconds from now are shown as that: "(30s)" after a key is its TTL.
func dump(t testing.TB, rdb *redis.Client) map[string]string {
	t.Helper()
	ctx, all := t.Context(), make(map[string]string)
	keys, err := rdb.Keys(ctx, "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		var value string
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "string":
			value = rdb.Get(ctx, key).Val()
		case "hash":
			var fields []string
			for name, count := range rdb.HGetAll(ctx, key).Val() {
				fields = append(fields, name+"="+count)
			}
			sort.Strings(fields)
			value = fmt.Sprint(fields)
		case "list":
			value = fmt.Sprint(rdb.LRange(ctx, key, 0, -1).Val())
		case "zset":
			var members []string
			for _, z := range rdb.ZRangeWithScores(ctx, key, 0, -1).Val() {
				end := "never"
				if z.Score != 922337203685477 {
					end = near(time.Until(time.UnixMilli(int64(z.Score))))
				}
				members = append(members, fmt.Sprintf("%v until %s", z.Member, end))
			}
			value = fmt.Sprint(members)
		default:
			require.Fail(t, "unexpected type", kind)
		}
		if left := rdb.PTTL(ctx, key).Val(); left > 0 {
			value += " (" + near(left) + ")"
		}
		all[key] = value
	}
	return all
}

// near rounds a duration that has passed for less than two seconds.
func near(d time.Duration) string {
	return ((d + 2*time.Second) / (5 * time.Second) * 5 * time.Second).String()
}

func request(owner, key string, mode driver.Mode) driver.Request {
	return driver.Request{Key: key, Owner: owner, Mode: mode, TTL: defaultWatchdogTTL}
}

// layout has a server of its own, whose keys are all of the test.
type layout struct {
	*testing.T
	store *Store
	rdb   *redis.Client
	sub   *redis.PubSub
}

func newLayout(t *testing.T, kind Kind) *layout {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	sub := rdb.PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
	return &layout{t, newStore(t, rdb, &Options{Kind: kind}), rdb, sub}
}

func (l *layout) acquire(r driver.Request) driver.Lease {
	l.Helper()
	lease, err := l.store.Acquire(l.Context(), r)
	require.NoError(l, err)
	return lease
}

func (l *layout) release(lease driver.Lease) {
	l.Helper()
	require.NoError(l, l.store.Release(l.Context(), lease))
}

func (l *layout) holds(want map[string]string, about ...any) {
	l.Helper()
	assert.Equal(l, want, dump(l, l.rdb), about...)
}

// published expects the next message.
func (l *layout) published(channel, payload string) {
	l.Helper()
	message, err := l.sub.ReceiveTimeout(l.Context(), 20*time.Second)
	require.NoError(l, err)
	m, ok := message.(*redis.Message)
	require.True(l, ok, "%v", message)
	assert.Equal(l, channel, m.Channel)
	assert.Equal(l, payload, m.Payload)
}

// none is the dump of a server without keys.
var none = map[string]string{}

func TestOwnersHaveTheFormOfRedisson(t *testing.T) {
	t.Parallel()
	a, b, c := wireOwner("client:1"), wireOwner("client:2"), wireOwner("other:1")
	for _, owner := range []string{a, b, c, wireOwner("no colon")} {
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:\d{1,19}$`, owner)
		_, err := strconv.ParseInt(owner[37:], 10, 64)
		require.NoError(t, err, "a long of Java")
	}
	assert.Equal(t, a[:36], b[:36], "one client has one id")
	assert.NotEqual(t, a, b)
	assert.NotEqual(t, a[:36], c[:36])
	assert.Equal(t, a, wireOwner("client:1"))
	assert.Equal(t, driver.ClientName("client:1"), clientName(a))
}

func TestNamesOfRedisson(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "redisson_lock__channel:{n}", lockChannel("n"))
	assert.Equal(t, "redisson_lock__channel:a{b}", lockChannel("a{b}"))
	assert.Equal(t, "redisson_lock_token:{n}", tokenKey("n"))
	assert.Equal(t, "redisson_lock_queue:{n}", queueKey("n"))
	assert.Equal(t, "redisson_lock_timeout:{n}", placesKey("n"))
	assert.Equal(t, "redisson_rwlock:{n}", rwChannel("n"))
	assert.Equal(t, "{n}:o:rwlock_timeout:1", readerKey("n", "o"))
	assert.Equal(t, "a{b}:o:rwlock_timeout:1", readerKey("a{b}", "o"))
}

func TestKeysOfAnRLock(t *testing.T) {
	l := newLayout(t, KindLock)
	r := request(ann, "n", driver.Exclusive)
	held := map[string]string{"n": "[" + wireOwner(ann) + "=1] (30s)"}
	lease := l.acquire(r)
	l.holds(held)
	l.acquire(r)
	l.holds(held, "a repeated request does not count")
	_, err := l.store.Acquire(l.Context(), request(bob, "n", driver.Exclusive))
	require.ErrorIs(l, err, driver.ErrNotAcquired)
	l.holds(held)
	l.release(lease)
	l.published("redisson_lock__channel:{n}", "0")
	l.holds(none)

	r.Attrs = &driver.Attrs{Metadata: "host 17"}
	l.acquire(r)
	l.holds(map[string]string{"n": held["n"], "leasewheel_metadata:{n}:" + wireOwner(ann): "host 17 (24h0m0s)"})
	require.NoError(l, l.store.ForceRelease(l.Context(), "n"))
	l.published("redisson_lock__channel:{n}", "0")
	lease.Unanswered = true
	require.ErrorIs(l, l.store.Release(l.Context(), lease), driver.ErrNotHeld)
	l.holds(map[string]string{"leasewheel_tombstone:{n}:" + wireOwner(ann): "1 (1m0s)"})
}

func TestALockOfARedissonThreadWithSeveralHolds(t *testing.T) {
	l := newLayout(t, KindLock)
	const foreign = "285475da-9152-4c83-822a-67ee2f116a79:52"
	require.NoError(l, l.rdb.HSet(l.Context(), "n", foreign, 2).Err())
	_, err := l.store.Acquire(l.Context(), request(ann, "n", driver.Exclusive))
	var held *driver.HeldError
	require.ErrorAs(l, err, &held)
	assert.Zero(l, held.ExpiresIn, "it does not expire")
	info, err := l.store.Inspect(l.Context(), "n")
	require.NoError(l, err)
	assert.Equal(l, "285475da91524c83", info.Holders[0].Client)
	l.holds(map[string]string{"n": "[" + foreign + "=2]"})
}

func TestKeysOfAnRFencedLock(t *testing.T) {
	l := newLayout(t, KindFencedLock)
	lease := l.acquire(request(ann, "n", driver.Exclusive))
	held := map[string]string{"n": "[" + wireOwner(ann) + "=1] (30s)", "redisson_lock_token:{n}": "1"}
	l.holds(held)
	l.acquire(lease.Request)
	l.holds(held, "a repeated request has the same token")
	l.release(lease)
	l.published("redisson_lock__channel:{n}", "0")
	l.holds(map[string]string{"redisson_lock_token:{n}": "1"})
	require.NoError(l, l.rdb.Set(l.Context(), "redisson_lock_token:{n}", 41, 0).Err())
	assert.EqualValues(l, 42, l.acquire(request(bob, "n", driver.Exclusive)).Token)
}

func TestKeysOfAnRFairLock(t *testing.T) {
	l := newLayout(t, KindFairLock)
	first, second, third := request(ann, "n", driver.Exclusive), request(bob, "n", driver.Exclusive), request("client-3:c", "n", driver.Exclusive)
	a, b, c := wireOwner(first.Owner), wireOwner(second.Owner), wireOwner(third.Owner)
	wait := func(r driver.Request) answer {
		got, err := l.store.send(l.Context(), &r, l.store.newState(&r, 0), true)
		require.NoError(l, err)
		return got
	}
	lease := l.acquire(first)
	l.holds(map[string]string{"n": "[" + a + "=1] (30s)"})
	assert.Equal(l, taken, wait(second).verdict)
	assert.Equal(l, taken, wait(third).verdict)
	queued := map[string]string{
		"n":                         "[" + a + "=1] (30s)",
		"redisson_lock_queue:{n}":   "[" + b + " " + c + "]",
		"redisson_lock_timeout:{n}": "[" + b + " until 5m30s " + c + " until 10m30s]",
	}
	l.holds(queued)
	wait(second)
	l.holds(queued, "a second request keeps the place")
	l.release(lease)
	l.published("redisson_lock__channel:{n}:"+b, "0")
	_, err := l.store.Acquire(l.Context(), third)
	require.ErrorIs(l, err, driver.ErrNotAcquired, "it does not overtake")
	assert.Equal(l, granted, wait(second).verdict)
	l.holds(map[string]string{
		"n":                         "[" + b + "=1] (30s)",
		"redisson_lock_queue:{n}":   "[" + c + "]",
		"redisson_lock_timeout:{n}": "[" + c + " until 5m30s]",
	})
	assert.Equal(l, taken, wait(first).verdict)
	require.ErrorIs(l, l.store.Release(l.Context(), driver.Lease{Request: third}), driver.ErrNotHeld)
	l.holds(map[string]string{
		"n":                         "[" + b + "=1] (30s)",
		"redisson_lock_queue:{n}":   "[" + a + "]",
		"redisson_lock_timeout:{n}": "[" + a + " until 5m30s]",
	}, "an owner that leaves moves those behind it")
	require.NoError(l, l.store.ForceRelease(l.Context(), "n"))
	l.published("redisson_lock__channel:{n}", "0")
	l.published("redisson_lock__channel:{n}:"+a, "0")
}

func TestAPlaceThatHasEndedIsRemoved(t *testing.T) {
	l := newLayout(t, KindFairLock)
	require.NoError(l, l.rdb.RPush(l.Context(), "redisson_lock_queue:{n}", "dead").Err())
	require.NoError(l, l.rdb.ZAdd(l.Context(), "redisson_lock_timeout:{n}", redis.Z{Score: float64(time.Now().Add(-time.Second).UnixMilli()), Member: "dead"}).Err())
	l.acquire(request(ann, "n", driver.Exclusive))
	l.holds(map[string]string{"n": "[" + wireOwner(ann) + "=1] (30s)"})
}

func TestKeysOfAnRReadWriteLock(t *testing.T) {
	l := newLayout(t, KindLock)
	a, b := wireOwner(ann), wireOwner(bob)
	first, second := l.acquire(request(ann, "n", driver.Read)), l.acquire(request(bob, "n", driver.Read))
	l.holds(map[string]string{
		"n":                              "[" + fields(a+"=1", b+"=1", "mode=read") + "] (30s)",
		"{n}:" + a + ":rwlock_timeout:1": "1 (30s)",
		"{n}:" + b + ":rwlock_timeout:1": "1 (30s)",
	})
	l.release(first)
	l.holds(map[string]string{"n": "[" + fields(b+"=1", "mode=read") + "] (30s)", "{n}:" + b + ":rwlock_timeout:1": "1 (30s)"})
	l.release(second)
	l.published("redisson_rwlock:{n}", "0")
	l.holds(none)

	w := l.acquire(request(ann, "n", driver.Write))
	written := map[string]string{"n": "[" + fields(a+":write=1", "mode=write") + "] (30s)"}
	l.holds(written)
	l.acquire(w.Request)
	l.holds(written, "a repeated request neither counts nor adds to the TTL")
	turned := w.Request
	turned.Mode = driver.Read
	l.acquire(turned)
	l.published("redisson_rwlock:{n}", "1")
	l.holds(map[string]string{"n": "[" + fields(a+"=1", "mode=read") + "] (30s)", "{n}:" + a + ":rwlock_timeout:1": "1 (30s)"})
	l.release(w)
	l.published("redisson_rwlock:{n}", "0")
	l.holds(none)
	l.release(l.acquire(request(ann, "n", driver.Write)))
	l.published("redisson_rwlock:{n}", "1")
	l.holds(none)
}

func fields(names ...string) string {
	sort.Strings(names)
	text := fmt.Sprint(names)
	return text[1 : len(text)-1]
}

func TestAKeyHoldsOneKindOfLock(t *testing.T) {
	l := newLayout(t, KindLock)
	rw := l.acquire(request(ann, "rw", driver.Read))
	plain := l.acquire(request(ann, "plain", driver.Exclusive))
	before := dump(l, l.rdb)
	for _, r := range []driver.Request{request(bob, "rw", driver.Exclusive), request(bob, "plain", driver.Read), request(bob, "plain", driver.Write)} {
		_, err := l.store.Acquire(l.Context(), r)
		require.ErrorIs(l, err, driver.ErrWrongType, r)
	}
	l.holds(before)
	l.release(rw)
	l.release(plain)
}

// Package redlock has the same key for a name, of another type.
func TestALockOfPackageRedlockAtTheSameName(t *testing.T) {
	l := newLayout(t, KindLock)
	other, err := redlock.New(l.rdb, nil)
	require.NoError(l, err)
	defer func() { assert.NoError(l, other.Close()) }()
	mine, theirs := request(ann, "n", driver.Exclusive), request(bob, "n", driver.Exclusive)
	lease := l.acquire(mine)
	_, err = other.Acquire(l.Context(), theirs)
	require.ErrorIs(l, err, driver.ErrWrongType)
	l.release(lease)
	taken, err := other.Acquire(l.Context(), theirs)
	require.NoError(l, err)
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Read, driver.Write} {
		mine.Mode = mode
		_, err = l.store.Acquire(l.Context(), mine)
		require.ErrorIs(l, err, driver.ErrWrongType, mode)
	}
	require.NoError(l, other.Release(l.Context(), taken))
	l.holds(none)
}
