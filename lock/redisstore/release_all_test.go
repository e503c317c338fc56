package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// releaseAll releases leases in one call and returns the error of each.
func releaseAll(ctx context.Context, t testing.TB, s *Store, leases ...driver.Lease) []error {
	t.Helper()
	out := make([]error, len(leases))
	require.NoError(t, s.ReleaseAll(ctx, leases, out))
	return out
}

// acquireByHand writes n locks in one pipeline and returns their leases.
func acquireByHand(t testing.TB, s *Store, rdb *redis.Client, prefix string, n int) []driver.Lease {
	t.Helper()
	leases := make([]driver.Lease, n)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range leases {
			leases[i] = s.lease(request(fmt.Sprint(prefix, i)), uint64(i+1), time.Time{})
			st := leases[i].State.(*leaseState)
			p.Set(t.Context(), st.key, st.value, time.Minute)
		}
		return nil
	})
	require.NoError(t, err)
	return leases
}

// The server does not know the scripts, as after a restart.
func TestReleaseAllNeedsFewScripts(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	const n, waiters = 2500, 3
	leases := acquireByHand(t, s, rdb, "k", n)
	var waiting []<-chan waited
	for _, l := range leases[:waiters] {
		waiting = append(waiting, startWait(t.Context(), t, s, request(l.Key)))
	}
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	assert.Equal(t, make([]error, n), releaseAll(t.Context(), t, s, leases...))
	for _, done := range waiting {
		w := <-done
		require.NoError(t, w.err)
		require.NoError(t, s.Release(t.Context(), w.Lease))
	}
	assert.Empty(t, keysOf(t, rdb, s.prefix+"{k7}"))
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	calls := 0
	for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		k, _ := strconv.Atoi(found[1])
		calls += k
	}
	assert.Less(t, calls, 2*n/rediskit.LeasesPerScript+50)
	for _, err := range releaseAll(t.Context(), t, s, leases...) {
		require.ErrorIs(t, err, driver.ErrNotHeld)
	}
}

func TestReleaseAllRejectsInvalidLeases(t *testing.T) {
	t.Parallel()
	s, rdb := sharedStore(t)
	good := acquireByHand(t, s, rdb, "k", 3)
	bad := good[1]
	bad.State, bad.Key = nil, ""
	out := releaseAll(t.Context(), t, s, good[0], bad, good[2])
	require.NoError(t, out[0])
	require.ErrorIs(t, out[1], driver.ErrBadKey)
	require.NoError(t, out[2])
	var zero Store
	for _, err := range releaseAll(t.Context(), t, &zero, good...) {
		require.ErrorIs(t, err, rediskit.ErrZeroStore)
	}
	for _, err := range releaseAll(nil, t, s, good[1]) { //nolint:staticcheck // a nil ctx is an error
		require.ErrorIs(t, err, rediskit.ErrNilContext)
	}
	require.NoError(t, s.Release(t.Context(), good[1]))
}

// releasesWhileSlotsMove checks that leases whose slots have moved are released at the new
// masters.
func releasesWhileSlotsMove(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	leases := acquireAll(t, s, "released", 200)
	bare := newStore(t, rdb, &Options{Prefix: s.prefix}) // does not know the slots yet
	first := leases[0]
	from := serverOf(t, c, s.lockKey(first.Key))
	to := other(c, from)
	slot := int(redisconn.SlotOf(s.lockKey(first.Key)))
	require.NoError(t, c.Move(t.Context(), slot, from, to))
	require.NoError(t, c.Agree(t.Context(), slot, to))
	assert.Equal(t, make([]error, 100), releaseAll(t.Context(), t, s, leases[:100]...))
	assert.Equal(t, make([]error, 100), releaseAll(t.Context(), t, bare, leases[100:]...))
	for _, err := range releaseAll(t.Context(), t, bare, leases...) {
		require.ErrorIs(t, err, driver.ErrNotHeld)
	}
	for _, l := range leases {
		acquire(t, bare, request(l.Key))
	}
}
