package memstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// Waiters notice the end of every lease that blocks them, also of leases granted after
// they began to wait.
func TestWaitersNoticeTheEndsOfLaterLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, start := memstore.New(), time.Now()
		request := func(owner, member string, ttl time.Duration) driver.Request {
			return driver.Request{Key: "g", Owner: owner, Mode: driver.Members, TTL: ttl, Attrs: &driver.Attrs{Members: []string{member}}}
		}
		wait := func(r driver.Request) <-chan time.Duration {
			got := make(chan time.Duration, 1)
			go func() {
				_, err := s.Wait(context.Background(), r, func() {})
				assert.NoError(t, err)
				got <- time.Since(start)
			}()
			synctest.Wait()
			return got
		}
		_, err := s.Acquire(context.Background(), request("long", "a", time.Minute))
		require.NoError(t, err)
		first := wait(request("first", "a", time.Minute))
		_, err = s.Acquire(context.Background(), request("short", "b", time.Second))
		require.NoError(t, err)
		second := wait(request("second", "b", 2*time.Second))
		third := wait(request("third", "b", time.Second))
		assert.Equal(t, time.Second, <-second)
		assert.Equal(t, 3*time.Second, <-third)
		assert.Equal(t, time.Minute, <-first)
	})
}
