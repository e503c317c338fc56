package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestInvalidRequestsAreRefusedWithoutIO(t *testing.T) {
	s, rdb := sharedStore(t)
	good := request("k")
	for want, change := range map[error]func(*driver.Request){
		driver.ErrBadKey:      func(r *driver.Request) { r.Key = "" },
		driver.ErrBadTTL:      func(r *driver.Request) { r.TTL = time.Millisecond - 1 },
		errors.ErrUnsupported: func(r *driver.Request) { r.Mode = 7 },
	} {
		r := good
		change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), want)
		require.ErrorIs(t, unknown(t.Context(), t, s, driver.Lease{Request: r}), want)
	}
	for _, r := range []driver.Request{
		{Key: "}k", Owner: "o", TTL: ttl30}, {Key: "k", Owner: "", TTL: ttl30}, {Key: "k", Owner: "o}", TTL: ttl30}, {Key: "k", Owner: "o", TTL: -ttl30},
	} {
		_, err := s.Acquire(t.Context(), r)
		require.Error(t, err)
		require.Error(t, s.Release(t.Context(), driver.Lease{Request: r}))
	}
	var none context.Context // nil
	_, err := s.Acquire(none, good)
	require.ErrorContains(t, err, "context is nil")
	require.ErrorContains(t, s.Release(none, driver.Lease{Request: good}), "context is nil")
	require.ErrorContains(t, unknown(none, t, s, driver.Lease{Request: good}), "context is nil")
	assert.Empty(t, keysOf(t, rdb, s.prefix))
}

func TestTheZeroStoreReturnsErrors(t *testing.T) {
	s, r := new(Store), request("k")
	l := driver.Lease{Request: r}
	_, acquired := s.Acquire(t.Context(), r)
	_, waited := s.Wait(t.Context(), r, func() {})
	_, inspected := s.Inspect(t.Context(), "k")
	_, _, listed := s.List(t.Context(), "", "")
	for _, err := range []error{
		acquired, waited, inspected, listed, s.ForceRelease(t.Context(), "k"), s.Release(t.Context(), l),
		unknown(t.Context(), t, s, l), unknown(t.Context(), t, s, l, l), s.Close(),
	} {
		require.ErrorIs(t, err, rediskit.ErrZeroStore)
	}
	assert.Zero(t, s.Lane(l))
	assert.Empty(t, s.Describe().Addresses)
}

func TestErrorsNameTheOperationAndNotTheOwner(t *testing.T) {
	s, rdb := sharedStore(t)
	key := "a\x00\n" + strings.Repeat("k", 1000)
	spoil(t, rdb, s.lockKey(key))
	r := request(key)
	_, err := s.Acquire(t.Context(), r)
	require.ErrorContains(t, err, "redisstore: acquire: ")
	assert.Less(t, len(err.Error()), 400)
	secretless(t, err, r.Owner)
	require.EqualError(t, s.Release(t.Context(), driver.Lease{Request: request("k")}), `redisstore: release: not held`)
	spoil(t, rdb, s.lockKey("k"))
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrWrongType)
	require.EqualError(t, err, `redisstore: acquire: the key "`+s.lockKey("k")+`" of Redis holds a list that is no part of a lock of this kind; use another name or Options.Prefix`)
}

func TestRenewALeaseFromAnotherStore(t *testing.T) {
	s, _ := sharedStore(t)
	l := acquire(t, s, request("k"))
	require.NotNil(t, l.State)
	bare := driver.Lease{Request: l.Request, Token: l.Token} // as if from another process
	changed := l
	changed.Key = "j"
	older := l
	older.Token--
	stranger := l
	stranger.Owner = strings.Repeat("s", len(l.Owner))
	foreign := l
	foreign.State = s.newState(&driver.Request{Key: "other", Owner: "x"}, 1)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Renewed, renewal.Lost, renewal.Lost, renewal.Lost, renewal.Renewed},
		renew(t, s, l, bare, changed, older, stranger, foreign))

	other := newStore(t, shared.Server(t).Client(t), nil)
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, other, l), "a store with another prefix has another lock")
}

func TestStoreTouchesOnlyItsOwnKeys(t *testing.T) {
	s, rdb := sharedStore(t)
	pre := s.prefix
	foreign := []string{
		pre, pre + "k", pre + "{k", pre + "k}", pre + "{k}:", pre + "{k}:T", pre + "{k}:x", pre + "{k}:x:", pre + "{k}:t:t",
		"{k}", "k", "{" + pre + "k}", pre + "{k }", pre + "{K}", strings.ToLower(pre) + "{k}", pre + "{{k}}", pre + "{k}:x:somebody",
	}
	for i, key := range foreign {
		require.NoError(t, rdb.Set(t.Context(), key, i, 0).Err())
		defer rdb.Del(context.Background(), key)
	}
	l := acquire(t, s, request("k"))
	renew(t, s, l)
	_, _ = s.Acquire(t.Context(), request("k"))
	require.NoError(t, s.ForceRelease(t.Context(), "k"))
	l.Unanswered = true
	require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
	for i, key := range foreign {
		got, err := rdb.Get(t.Context(), key).Int()
		require.NoError(t, err, "%q", key)
		assert.Equal(t, i, got, "%q", key)
		assert.Equal(t, time.Duration(-1), rdb.PTTL(t.Context(), key).Val(), "%q", key)
	}
}

func TestNewRejectsInvalidArguments(t *testing.T) {
	good := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer good.Close()
	for _, wrong := range []struct {
		field string
		o     Options
	}{
		{"Options.Prefix", Options{Prefix: "a{b"}},
		{"Options.Prefix", Options{Prefix: "a}b"}},
		{"Options.Timeout", Options{Timeout: -1}},
		{"Options.PoolSize", Options{PoolSize: -1}},
		{"Options.PoolSize", Options{PoolSize: 10_001}},
	} {
		_, err := New(good, &wrong.o)
		require.ErrorContains(t, err, wrong.field)
	}
	_, err := New(nil, nil)
	require.ErrorContains(t, err, "rdb is nil")
	_, err = New((*redis.Client)(nil), nil)
	require.ErrorContains(t, err, "rdb is nil")

	_, err = New((*redis.ClusterClient)(nil), nil)
	require.ErrorContains(t, err, "rdb is nil")

	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	_, err = New(ring, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "*redis.Ring")
}

func TestDefaultOptions(t *testing.T) {
	opts, err := (*Options)(nil).withDefaults()
	require.NoError(t, err)
	assert.Equal(t, Options{Prefix: "lw:", Timeout: 3 * time.Second, PoolSize: 16, Replicas: Replicas{Timeout: time.Second}}, opts)
}

func TestCloseLeavesTheUsersClientOpen(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, request("k"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice")
	require.NoError(t, rdb.Ping(t.Context()).Err())

	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrClosed)
	require.ErrorIs(t, unknown(t.Context(), t, s, l), driver.ErrClosed)
	_, err = s.Inspect(t.Context(), "k")
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, s.ForceRelease(t.Context(), "k"), driver.ErrClosed)
	_, _, err = s.List(t.Context(), "p", "")
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorContains(t, err, "redisstore: list: ")
	require.ErrorIs(t, releaseAll(t.Context(), t, s, l)[0], driver.ErrClosed)
}

// The options at their bounds make stores that work, with places as long as places may be.
func TestOptionsAtTheirBounds(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	for _, o := range []Options{
		{Timeout: math.MaxInt64},
		{Place: 1},
		{Place: math.MaxInt64},
		{PoolSize: 1},
		{PoolSize: 10_000},
		{Prefix: "\x00\r\n*1"},
		{Prefix: strings.Repeat("p", 5000)},
	} {
		o.Prefix += rand.Text()
		s := newStore(t, rdb, &o)
		l := acquire(t, s, requestFor("k", time.Minute))
		assert.Len(t, renew(t, s, l), 1)
		require.NoError(t, s.Release(t.Context(), l))
		assert.GreaterOrEqual(t, s.place(l.TTL), l.TTL/10-time.Millisecond)
		assert.LessOrEqual(t, s.place(l.TTL), l.TTL)
	}
}

// The hooks of the user see each request.
func TestAHookSeesALockItsRenewalsAndItsUnlock(t *testing.T) {
	t.Parallel()
	cluster := testredis.StartCluster(t, 2, false)
	for name, rdb := range map[string]redis.UniversalClient{"server": shared.Server(t).Client(t), "cluster": cluster.Client(t)} {
		var calls testredis.Counter
		s, err := New(rdb, &Options{Prefix: rand.Text() + ":", Instrument: calls.Attach})
		require.NoError(t, err)
		client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
		require.NoError(t, err)
		held, err := client.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		count := func(sc *redisnode.Script) int { return calls.Count(sc.Digest()) }
		assert.Eventually(t, func() bool { return count(renewScript) > 1 }, soon, time.Millisecond, name)
		require.NoError(t, held.Unlock(t.Context()))
		assert.GreaterOrEqual(t, count(acquireScript), 1, name)
		assert.GreaterOrEqual(t, count(releaseScript), 1, name)
		require.NoError(t, client.Close(context.Background()))
	}
}

func TestAnInstrumentMayFail(t *testing.T) {
	t.Parallel()
	failed := errors.New("no instrument")
	o := &Options{Instrument: func(*redis.Client) error { return failed }}
	rdb := shared.Server(t).Client(t)
	_, err := New(rdb, o)
	require.ErrorIs(t, err, failed)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{rdb.Options().Addr}})
	defer cluster.Close()
	s := newStore(t, cluster, o)
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, failed.Error())
}

// limiter refuses requests.
type limiter struct{ refusal error }

func (l limiter) Allow() error { return l.refusal }

func (limiter) ReportResult(error) {}

func TestAnInstrumentMaySetALimiter(t *testing.T) {
	t.Parallel()
	refused, clients := errors.New("too many requests"), 0
	s := newStore(t, shared.Server(t).Client(t), &Options{Instrument: func(rdb *redis.Client) error {
		clients++
		rdb.Options().Limiter = limiter{refused}
		return nil
	}})
	_, err := s.Acquire(t.Context(), request("k"))
	assert.Equal(t, 14, clients, "the comment of Instrument has the number")
	require.ErrorIs(t, err, refused)
}
