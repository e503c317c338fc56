package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// unreachable returns clients whose server refuses the connection.
func unreachable(t *testing.T) map[string]redis.UniversalClient {
	const addr = "127.0.0.1:1"
	all := map[string]redis.UniversalClient{
		"server":  redis.NewClient(&redis.Options{Addr: addr, Username: "alice", Password: "sesame"}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, Password: "sesame"}),
	}
	for _, rdb := range all {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	return all
}

func TestAnUnreachableServerIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, isUnavailable) // the pauses between the tries take no time
}

func isUnavailable(t *testing.T) {
	for name, rdb := range unreachable(t) {
		store, err := New(rdb, nil)
		require.NoError(t, err)
		var log strings.Builder
		client, err := lock.New(store, &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		for i := range 10 {
			for _, l := range []lock.Locker{client.Mutex(fmt.Sprint(i)), client.Semaphore(fmt.Sprint(i), 2), client.Batch("group", "a", "b")} {
				_, err := l.TryLock(t.Context())
				require.ErrorIs(t, err, lock.ErrUnavailable, name)
				require.NotErrorIs(t, err, lock.ErrNotAcquired, name)
				_, err = l.Lock(t.Context())
				require.ErrorIs(t, err, lock.ErrUnavailable, name)
			}
		}
		assert.Zero(t, client.Stats().Releasing, "nothing was sent")
		require.NoError(t, client.Close(t.Context()), name)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		assert.Contains(t, log.String(), "addresses=[127.0.0.1:1]")
		assert.NotContains(t, log.String(), "sesame")
	}
}

// A Lock in the queue notices that the server does not answer any more.
func TestAServerThatStopsIsNoContention(t *testing.T) {
	t.Parallel()
	srv := shared.Server(t)
	synctest.Test(t, func(t *testing.T) {
		link, store := newLinked(t, srv, Options{Place: 300 * time.Millisecond})
		acquire(t, store, request("k"))
		client, err := lock.New(struct {
			driver.Store
			driver.Waiter
		}{store, store}, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Close(context.Background())) }()
		defer store.Close() // before the client is closed, which would wait for answers

		try := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err := client.Mutex("k").Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		}
		err = try()
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotErrorIs(t, err, lock.ErrUnavailable)

		time.AfterFunc(500*time.Millisecond, func() { link.Delay(time.Hour) })
		err = try()
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

func TestTheKindInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	store := newStore(t, shared.Server(t).Client(t), nil)
	client, err := lock.New(keptOpen{store}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(context.Background())) }()
	held, err := client.Mutex("kind").Lock(t.Context())
	require.NoError(t, err)
	_, err = client.Semaphore("kind", 3).TryLock(t.Context())
	require.EqualError(t, err, `lock: "kind" is a mutex, not a semaphore`)
	require.NoError(t, held.Unlock(t.Context()))
	held, err = client.Semaphore("kind", 3).Lock(t.Context())
	require.NoError(t, err)
	_, err = client.Mutex("kind").TryLock(t.Context())
	require.EqualError(t, err, `lock: "kind" is a semaphore, not a mutex`)
	require.ErrorIs(t, err, lock.ErrWrongType)
	require.NoError(t, held.Unlock(t.Context()))
}

// keptOpen is a store that its client does not close.
type keptOpen struct{ *Store }

func (keptOpen) Close() error                   { return nil }
func (keptOpen) Shutdown(context.Context) error { return nil }
