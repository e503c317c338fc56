package redsync

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

// newClient returns a client of package lock whose locks have the keys of redsync.
func newClient(t *testing.T, servers []*redis.Client) *lock.Client {
	var stores []driver.Store
	for _, s := range servers {
		store, err := redlock.New(s, nil)
		require.NoError(t, err)
		stores = append(stores, store)
	}
	store := stores[0]
	if len(stores) > 1 {
		quorum, err := quorumstore.New(stores...)
		require.NoError(t, err)
		store = quorum
	}
	client, err := lock.New(store, &lock.Options{
		Logger:  slog.New(slog.DiscardHandler),
		Backoff: func(int) time.Duration { return time.Millisecond },
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close(context.Background())) })
	return client
}

// TestPackageLockSharesTheLocks is the step from this package, or from the original, to package
// lock with the same keys.
func TestPackageLockSharesTheLocks(t *testing.T) {
	for _, n := range []int{1, 3} {
		both(t, func(t *testing.T, l library) {
			ctx, servers, key := t.Context(), clients(t, n), newKey(t)
			client := newClient(t, servers)
			m := l.newMutex(servers, key, expiry(time.Minute))

			require.NoError(t, m.Lock())
			_, err := client.Mutex(key).TryLock(ctx)
			assert.ErrorIs(t, err, lock.ErrNotAcquired)
			succeeds(t, m.Unlock)

			held, err := client.Mutex(key).TryLock(ctx)
			require.NoError(t, err)
			_, taken := takenNodes(m.TryLock())
			assert.True(t, taken)
			ok, _ := m.Unlock()
			assert.False(t, ok)
			kept := slices.DeleteFunc(values(t, servers, key), func(v string) bool { return v == "" })
			assert.Greater(t, len(kept), n/2, "still held")
			require.NoError(t, held.Unlock(ctx))

			counter := 0 // the race detector reports two holders
			together(4, func(i int) {
				m := l.newMutex(servers, key, expiry(time.Minute), tries(100_000), delay(time.Millisecond))
				for range 50 {
					if i%2 == 0 {
						assert.NoError(t, m.Lock())
						counter++
						succeeds(t, m.Unlock)
						continue
					}
					held, err := client.Mutex(key).Lock(ctx)
					if assert.NoError(t, err) {
						counter++
						assert.NoError(t, held.Unlock(ctx))
					}
				}
			})
			assert.Equal(t, 200, counter)
			assert.Equal(t, slices.Repeat([]string{""}, n), values(t, servers, key))
		})
	}
}
