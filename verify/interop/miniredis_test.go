package interop

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisson"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/lock/redlock"
)

// Unit tests of programs use miniredis. It expires no keys by itself, so these locks do not expire.
func TestLocksOnMiniredis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	for name, open := range map[string]func() (driver.Store, error){
		"redisstore": func() (driver.Store, error) { return redisstore.New(rdb, nil) },
		"redlock":    func() (driver.Store, error) { return redlock.New(rdb, &redlock.Options{Prefix: rand.Text()}) },
		"redisson":   func() (driver.Store, error) { return redisson.New(rdb, &redisson.Options{Prefix: rand.Text()}) },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := open()
			require.NoError(t, err)
			client := clientOn(t, store, ttl)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			_, err = client.Mutex("k").TryLock(t.Context())
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			next := make(chan error, 1)
			go func() {
				h, err := client.Mutex("k").Lock(t.Context())
				if err == nil {
					err = h.Unlock(t.Context())
				}
				next <- err
			}()
			renewed := held.Deadline()
			require.Eventually(t, func() bool { return held.Deadline().After(renewed) }, enough, time.Millisecond)
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, <-next)
		})
	}
}
