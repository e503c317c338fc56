package redisson

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// The holder of a fair lock renews its lease beyond the ends of all places. Whichever waiter asks
// next moves its place, and each place still ends one wait after the one before: a grant takes one
// wait from all of them.
func TestPlacesInAFairQueueEndOneAfterAnother(t *testing.T) {
	t.Parallel()
	const wait, waiters = time.Second, 5
	s, rdb := own(t, Options{Kind: KindFairLock, FairWait: wait})
	name := s.options.Prefix + "k"
	l, err := s.Acquire(t.Context(), request(ann, "k", driver.Exclusive))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	ends := func(owner string) time.Time {
		ms, err := rdb.ZScore(t.Context(), placesKey(name), owner).Result()
		require.NoError(t, err)
		return time.UnixMilli(int64(ms))
	}
	owner := func(i int) string { return rdb.LIndex(t.Context(), queueKey(name), int64(i)).Val() }
	for i := range waiters {
		wg.Go(func() {
			_, err := s.Wait(ctx, request(fmt.Sprint("waiter:", i), "k", driver.Exclusive), func() {})
			assert.ErrorIs(t, err, context.Canceled)
		})
		require.Eventually(t, func() bool { return rdb.LLen(t.Context(), queueKey(name)).Val() == int64(i)+1 }, 20*time.Second, time.Millisecond)
	}
	for _, asking := range []int{2, 0, 4, 1} {
		l.TTL += 10 * time.Minute
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
		require.Equal(t, renewal.Renewed, out[0])
		lease := time.Now().Add(l.TTL)
		channel := lockChannel(name) + ":" + owner(asking)
		require.Eventually(t, func() bool { // the waiter may not have subscribed yet
			require.NoError(t, rdb.Publish(t.Context(), channel, "0").Err())
			return ends(owner(asking)).After(lease.Add(-time.Minute))
		}, 20*time.Second, 10*time.Millisecond)
		for i := asking; i < waiters-1; i++ {
			assert.GreaterOrEqual(t, ends(owner(i+1)).Sub(ends(owner(i))), wait, "%d asked: places %d and %d", asking, i, i+1)
		}
	}
}
