package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
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
