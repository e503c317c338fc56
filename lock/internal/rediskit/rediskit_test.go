package rediskit

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFailedNamesTheStoreAndTheVerb(t *testing.T) {
	err := basic.Failed("redlock", "renew", driver.ErrStoreClosed)
	require.EqualError(t, err, `redlock: renew: the store is closed`)
	assert.ErrorIs(t, err, driver.ErrStoreClosed)
}

func TestUnexpectedReplyShowsNoContent(t *testing.T) {
	assert.EqualError(t, UnexpectedReply("owner"), "unexpected reply type string")
	assert.EqualError(t, UnexpectedReply([]any{"owner", int64(1)}), "unexpected reply with 2 elements")
}

func TestParseDeniedReplies(t *testing.T) {
	list := func(items ...any) []any { return items }
	for _, good := range []any{list(), list(int64(-1)), list(int64(3)), list(int64(1), int64(-2), int64(3))} {
		got, err := ParseDenied(good, 3)
		require.NoError(t, err)
		assert.Equal(t, good, got)
	}
	for _, bad := range []any{
		nil, int64(0), list(nil), list("1"), list(int64(0)), list(int64(4)), list(int64(-4)), list(int64(math.MinInt64)), list(int64(math.MaxInt64)),
		list(int64(1), int64(-1)), list(int64(-2), int64(1)), list(int64(1), int64(2), int64(3), int64(3)), list(1.0), list(list(int64(1))),
	} {
		_, err := ParseDenied(bad, 3)
		require.Error(t, err, "%#v", bad)
	}
}

func TestCloseWaitsForASecond(t *testing.T) {
	client := newClient(t)
	synctest.Test(t, func(t *testing.T) {
		var closing basic.Closing
		began, release := time.Now(), make(chan struct{})
		err := Close(func(ctx context.Context) error {
			return Shutdown(ctx, "redlock", client, &closing, func() error { <-release; return client.Close() })
		})
		require.ErrorIs(t, err, errStillRunning)
		assert.Equal(t, time.Second, time.Since(began))
		close(release)
	})
}

func newClient(t *testing.T) *redisconn.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	client, err := redisconn.New(rdb, redisconn.Options{Timeout: time.Second, PoolSize: 1})
	require.NoError(t, errors.Join(err, rdb.Close()))
	return client
}

func TestShutdownEndsOnceAndReturnsTheErrorOfThat(t *testing.T) {
	client := newClient(t)
	reason := errors.New("dirty")
	var closing basic.Closing
	ends := 0
	for range 2 {
		err := Shutdown(t.Context(), "redlock", client, &closing, func() error {
			ends++
			return errors.Join(client.Close(), reason)
		})
		require.EqualError(t, err, "redlock: close: dirty")
	}
	assert.Equal(t, 1, ends)
	assert.ErrorIs(t, client.Begin(t.Context()), redisconn.ErrClosed, "calls are cancelled")
}
