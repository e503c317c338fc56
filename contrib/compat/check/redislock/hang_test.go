package redislock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/compat/redislock"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// TestARealServerThatHangs uses a client without timeouts, with which go-redis waits for ever.
func TestARealServerThatHangs(t *testing.T) {
	server, key := testredis.Start(t), newKey(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, WriteTimeout: -1, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	free := func() bool { return server.Client(t).Exists(t.Context(), key).Val() == 0 }

	require.NoError(t, server.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := redislock.Obtain(ctx, rdb, key, time.Hour, nil)
	assert.Equal(t, context.DeadlineExceeded, err)
	require.NoError(t, server.Cont())
	require.Eventually(t, free, 20*time.Second, time.Millisecond)

	got, err := redislock.Obtain(t.Context(), rdb, key, time.Hour, nil)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	assert.Equal(t, context.DeadlineExceeded, got.Release(ctx))
	require.NoError(t, server.Cont())
	require.Eventually(t, free, 20*time.Second, time.Millisecond)
}
