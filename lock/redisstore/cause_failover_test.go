package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// forgetAll deletes all keys of a replica, as if they had not reached it yet.
func forgetAll(t testing.TB, replica *testredis.Server) {
	t.Helper()
	rdb := replica.Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "replica-read-only", "no").Err())
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
}

// A replica without the locks becomes the master, because the master has died or by a command.
func TestAFailoverIsTheCauseBehindSentinel(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, s *sentinelSetup){
		"killed":  func(_ *testing.T, s *sentinelSetup) { s.master.Kill() },
		"demoted": func(t *testing.T, s *sentinelSetup) { s.demote(t) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := startSentinel(t)
			h := holdLong(t, of(t, s.client(t)), 30)
			awaitStanding(t, s.master.Client(t))
			forgetAll(t, s.replica)
			end(t, s)
			assertTold(t, h.held, h.next)
		})
	}
}

// clusterFailovers make the replica of the first master the master.
var clusterFailovers = map[string]func(t testing.TB, c *testredis.Cluster){
	"killed": func(_ testing.TB, c *testredis.Cluster) { c.Masters[0].Kill() },
	"demoted": func(t testing.TB, c *testredis.Cluster) {
		require.NoError(t, c.Replicas[0].Client(t).ClusterFailover(t.Context()).Err())
	},
}

func TestAFailoverIsTheCauseOnACluster(t *testing.T) {
	t.Parallel()
	for how, end := range clusterFailovers {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, true, "--cluster-node-timeout", "1000")
			next := time.Now().Add(longTTL/6 - longTTL/300)
			l := newClusterStack(t, c, longTTL)
			on, off := l.partition(t, c.Masters[0])
			awaitStanding(t, c.Masters[0].Client(t))
			forgetAll(t, c.Replicas[0])
			end(t, c)
			assertTold(t, on, next)
			for _, h := range off {
				require.NoError(t, h.Err(), h.Key())
			}
		})
	}
}
