package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

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
	refused := errors.New("too many requests")
	s := newStore(t, shared.Server(t).Client(t), &Options{Instrument: func(rdb *redis.Client) error {
		rdb.Options().Limiter = limiter{refused}
		return nil
	}})
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, refused)
}
