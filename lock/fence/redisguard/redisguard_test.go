package redisguard_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/fence"
	"github.com/leasewheel/leasewheel/lock/fence/redisguard"
)

var shared testredis.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	goleak.VerifyTestMain(shared.Around(m))
}

func TestOnlyTheLatestHolderWrites(t *testing.T) {
	ctx, rdb := t.Context(), shared.Server(t).Client(t)
	g := redisguard.New(rdb)
	_, token, found, err := g.Get(ctx, "a")
	require.NoError(t, err)
	assert.Zero(t, token)
	assert.False(t, found)

	require.NoError(t, g.Set(ctx, "a", 9, "by nine"))
	require.NoError(t, g.Set(ctx, "a", 10, "by ten"))
	require.NoError(t, g.Set(ctx, "a", 10, "again\x00"))
	var stale *fence.StaleError
	require.ErrorAs(t, g.Set(ctx, "a", 9, "late"), &stale)
	assert.Equal(t, fence.StaleError{Resource: "a", Token: 9, Highest: 10}, *stale)
	require.ErrorIs(t, g.Delete(ctx, "a", 9), fence.ErrStale)
	value, token, found, err := g.Get(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, "again\x00 10 true", fmt.Sprint(value, " ", token, " ", found))

	require.NoError(t, g.Delete(ctx, "a", 11))
	require.ErrorIs(t, g.Set(ctx, "a", 10, "late"), fence.ErrStale, "a deleted value stays deleted")
	_, token, found, err = g.Get(ctx, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 11, token)
	assert.False(t, found)

	const top = uint64(math.MaxUint64) // equal as numbers in Lua
	require.NoError(t, g.Set(ctx, "b", top, "x"))
	require.ErrorIs(t, g.Set(ctx, "b", top-1, "y"), fence.ErrStale)
	require.ErrorIs(t, g.Set(ctx, "b", 0, "y"), fence.ErrNoToken)
	require.ErrorIs(t, g.Delete(ctx, "b", 0), fence.ErrNoToken)
}

func TestConcurrentWrites(t *testing.T) {
	ctx, rdb := t.Context(), shared.Server(t).Client(t)
	g := redisguard.New(rdb)
	var wg sync.WaitGroup
	for token := range uint64(40) {
		wg.Go(func() {
			if err := g.Set(ctx, "c", token+1, fmt.Sprint("by ", token+1)); err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	wg.Wait()
	value, token, _, err := g.Get(ctx, "c")
	require.NoError(t, err)
	assert.Equal(t, "by 40 40", fmt.Sprint(value, " ", token))
}

func TestFailures(t *testing.T) {
	rdb := shared.Server(t).Client(t)
	g := redisguard.New(rdb)
	require.NoError(t, rdb.Set(t.Context(), "d", "no guarded value", 0).Err())
	require.ErrorContains(t, g.Set(t.Context(), "d", 1, "x"), `redisguard: set "d": WRONGTYPE`)
	_, _, _, err := g.Get(t.Context(), "d")
	require.ErrorContains(t, err, "WRONGTYPE")
	assert.Equal(t, "no guarded value", rdb.Get(t.Context(), "d").Val())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Set(ended, "e", 1, "x"), context.Canceled)
	gone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer gone.Close()
	require.Error(t, redisguard.New(gone).Delete(t.Context(), "e", 1))
}

func TestErrorsNameTheNilArgument(t *testing.T) {
	for _, none := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		assert.PanicsWithValue(t, "redisguard: New of a nil client", func() { redisguard.New(none) })
	}
	errorsOf := func(ctx context.Context, g *redisguard.Guard) []error {
		_, _, _, err := g.Get(ctx, "k")
		return []error{g.Set(ctx, "k", 1, "x"), g.Delete(ctx, "k", 1), err}
	}
	for i, verb := range []string{"set", "delete", "get"} {
		require.EqualError(t, errorsOf(t.Context(), new(redisguard.Guard))[i], `redisguard: `+verb+` "k": the Guard was not made by New`)
		var none context.Context
		require.EqualError(t, errorsOf(none, redisguard.New(shared.Server(t).Client(t)))[i], `redisguard: `+verb+` "k": the context is nil`)
	}
}
