package redsync

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync"
	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis/goredis/v9"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// A program with a stable value gets its lock back after a crash, and a free lock, but not that of
// another program; see WithGenValueFunc.
func TestAProgramWithAStableValueGetsItsLockBack(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	rs := redsync.New(goredis.NewPool(rdb))
	back := func() (bool, error) {
		return rs.NewMutex("k", redsync.WithExpiry(time.Minute), redsync.WithValue("host-1"), redsync.WithSetNXOnExtend()).Extend()
	}
	first := rs.NewMutex("k", redsync.WithExpiry(time.Minute), redsync.WithGenValueFunc(func() (string, error) { return "host-1", nil }))
	require.NoError(t, first.Lock()) // and it crashes
	for range 2 {
		ok, err := back()
		require.NoError(t, err)
		assert.True(t, ok)
		require.NoError(t, rdb.Del(context.Background(), "k").Err()) // the second time the key is gone
	}
	require.NoError(t, rdb.Set(context.Background(), "k", "host-2", time.Minute).Err())
	ok, err := back()
	assert.False(t, ok)
	require.Error(t, err)
}
