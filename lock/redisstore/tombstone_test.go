package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// A waiter that got its lock while a poll was unanswered leaves no tombstone. The first
// waiter of a client often does that.
func TestAHandOverLeavesNoTombstone(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	for i := range 24 {
		key := fmt.Sprint("k", i)
		s := newStore(t, rdb, nil)
		holder := acquire(t, s, requestFor(key, ttl30))
		fresh, err := New(rdb, &Options{Prefix: s.prefix, Timeout: long})
		require.NoError(t, err)
		c, err := lock.New(fresh, nil)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			h, err := c.Mutex(key).Lock(t.Context())
			if err == nil {
				err = h.Unlock(t.Context())
			}
			got <- err
		}()
		require.Eventually(t, func() bool { return rdb.LLen(t.Context(), s.keys(key, "").queue).Val() == 1 }, soon, 100*time.Microsecond)
		time.Sleep(time.Duration(i%6) * 100 * time.Microsecond) // approximately when the subscription is confirmed
		require.NoError(t, s.Release(t.Context(), holder))
		require.NoError(t, <-got)
		require.NoError(t, c.Close(context.Background()))
	}
	assert.LessOrEqual(t, len(rdb.Keys(t.Context(), "*:x:*").Val()), 2, "a busy machine may answer a poll later than the waiter waits for it")
}
