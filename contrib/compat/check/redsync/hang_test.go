package redsync

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// TestRealServersThatHang uses clients without timeouts, with which go-redis waits for ever.
func TestRealServersThatHang(t *testing.T) {
	t.Parallel() // it waits most of the time
	key := newKey(t)
	var servers []*testredis.Server
	var patient, healthy []*redis.Client
	for range 3 {
		s := testredis.Start(t)
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: -1, WriteTimeout: -1, MaxRetries: -1})
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.Ping(t.Context()).Err())
		servers, patient, healthy = append(servers, s), append(patient, c), append(healthy, s.Client(t))
	}
	free := func(t *testing.T) {
		for _, s := range servers {
			require.NoError(t, s.Cont())
		}
		for i, c := range healthy {
			require.Eventually(t, func() bool { return c.Exists(t.Context(), key).Val() == 0 }, 20*time.Second, time.Millisecond, "server %d", i)
		}
	}
	m := newMutex(patient, key, expiry(20*time.Second))
	t.Run("a minority", func(t *testing.T) {
		require.NoError(t, servers[2].Stop())
		require.NoError(t, m.Lock())
		ok, err := m.Unlock()
		assert.True(t, ok)
		assert.NoError(t, err)
		free(t)
	})
	t.Run("a majority", func(t *testing.T) {
		require.NoError(t, servers[1].Stop())
		require.NoError(t, servers[2].Stop())
		err := m.TryLock()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, lock.ErrUnavailable)
		free(t)
	})
	t.Run("a context that ends", func(t *testing.T) {
		require.NoError(t, servers[1].Stop())
		require.NoError(t, servers[2].Stop())
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, m.TryLockContext(ctx), context.DeadlineExceeded)
		free(t)
	})
}

// TestServersThatCrash takes servers away while a lock is held.
func TestServersThatCrash(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		key := newKey(t)
		var servers []*testredis.Server
		var list []*redis.Client
		for range 3 {
			s := testredis.Start(t)
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1})
			t.Cleanup(func() { _ = c.Close() })
			servers, list = append(servers, s), append(list, c)
		}
		m := l.newMutex(list, key)
		require.NoError(t, m.Lock())
		servers[0].Kill()
		ok, err := m.Extend()
		assert.True(t, ok)
		assert.NoError(t, err)
		_, taken := l.taken(l.newMutex(list, key).TryLock())
		assert.True(t, taken)

		servers[1].Kill()
		ok, err = m.Extend()
		assert.False(t, ok)
		_, cause := l.redisError(err)
		assert.Error(t, cause)
		ok, err = m.Unlock()
		assert.False(t, ok)
		assert.Error(t, err)

		require.NoError(t, servers[0].Restart()) // without its data
		require.NoError(t, m.Lock())
		ok, err = m.Unlock()
		assert.True(t, ok)
		assert.NoError(t, err)
	})
}
