package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

func TestNewRefuses(t *testing.T) {
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

func TestTheDefaults(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), &Options{})
	assert.Equal(t, "lw:", s.prefix)
	assert.Equal(t, 3*time.Second, s.timeout)
	assert.Equal(t, 16, s.one.desk.most)
}

func TestTheDerivedClient(t *testing.T) {
	given := &redis.Options{
		Addr: "example.invalid:1", Username: "u", Password: "p", DB: 3, ClientName: "app", MaxRetries: 7,
		ReadTimeout: time.Minute, PoolSize: 500, MinIdleConns: 100, DialTimeout: time.Hour, DialerRetries: 9, ConnMaxLifetime: time.Hour,
		Limiter: limiter{}, ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
	}
	rdb := redis.NewClient(derive(t.Context(), given))
	defer rdb.Close()
	o := rdb.Options()
	assert.Equal(t, []any{"example.invalid:1", "u", "p", 3, "app", time.Hour},
		[]any{o.Addr, o.Username, o.Password, o.DB, o.ClientName, o.ConnMaxLifetime}, "taken over")
	assert.Equal(t, 0, o.MaxRetries, "none")
	assert.True(t, o.ContextTimeoutEnabled)
	assert.Zero(t, o.ReadTimeout, "none")
	assert.Zero(t, o.WriteTimeout, "none")
	assert.Equal(t, time.Second, o.DialTimeout)
	assert.Equal(t, 1, o.DialerRetries)
	assert.Equal(t, 4, o.PoolSize)
	assert.Equal(t, 4, o.PipelinePoolSize)
	assert.Zero(t, o.MinIdleConns)
	assert.True(t, o.DisableIdentity)
	assert.Nil(t, o.Limiter)
	assert.Nil(t, o.ClientSideCacheConfig)
	assert.Equal(t, 7, given.MaxRetries, "the given ones are as they were")
}

// limiter stands for one that has had enough.
type limiter struct{}

func (limiter) Allow() error { return errors.New("enough") }

func (limiter) ReportResult(error) {}

func TestTheGivenClientStaysOpen(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, request("k"))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "twice")
	require.NoError(t, rdb.Ping(t.Context()).Err())

	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.Release(t.Context(), l), lock.ErrClosed)
	require.ErrorIs(t, unknown(t.Context(), t, s, l), lock.ErrClosed)
	_, err = s.Inspect(t.Context(), "k")
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, s.ForceRelease(t.Context(), "k"), lock.ErrClosed)
}

func TestCloseWaitsForWhatItEnds(t *testing.T) {
	w := &wire{answer: func([]string) string { time.Sleep(20 * time.Millisecond); return "" }}
	s := newStore(t, w.client(t, redis.Options{}), nil)
	var lingering lingerer
	for _, solo := range s.one.desk.soloists {
		solo.rdb.AddHook(&lingering)
	}
	s.one.desk.together.AddHook(&lingering)
	done := make(chan error)
	go func() {
		_, err := s.Acquire(t.Context(), request("k"))
		done <- err
	}()
	require.Eventually(t, func() bool { return lingering.begun.Load() > 0 }, 5*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	assert.Equal(t, lingering.begun.Load(), lingering.ended.Load())
	require.ErrorIs(t, <-done, lock.ErrClosed)
}

// lingerer is a client whose commands take a while to end.
type lingerer struct{ begun, ended atomic.Int64 }

func (*lingerer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lingerer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.linger(func() error { return next(ctx, cmds) })
	}
}

func (l *lingerer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.linger(func() error { return next(ctx, cmd) })
	}
}

func (l *lingerer) linger(f func() error) error {
	l.begun.Add(1)
	err := f()
	time.Sleep(50 * time.Millisecond)
	l.ended.Add(1)
	return err
}
