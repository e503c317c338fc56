package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// forgetAll deletes all keys of a replica, as if they had not reached it yet.
func forgetAll(t *testing.T, replica *testredis.Server) {
	t.Helper()
	rdb := replica.Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "replica-read-only", "no").Err())
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
}

// assertFailover checks that each of the leases is lost, and that the fail-over is its cause.
func assertFailover(t *testing.T, held []*lock.Held) {
	t.Helper()
	for i, h := range held {
		<-h.Done()
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		if i == 0 {
			t.Logf("%v: %v", lost.Cause(), lost.Seen())
		}
		require.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		require.Equal(t, renewal.CauseFailover, lost.Cause(), "%v: %v", lost, lost.Seen())
		assert.Contains(t, lost.Seen(), "another server process answered: ")
	}
}

// A replica without the locks becomes the master, because the master has died or by a command.
func TestAFailoverIsTheCauseBehindSentinel(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, s *sentinelSetup){
		"killed":  func(_ *testing.T, s *sentinelSetup) { s.master.Kill() },
		"demoted": func(t *testing.T, s *sentinelSetup) { require.NoError(t, s.sentinel.Failover(t.Context(), "m").Err()) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := startSentinel(t)
			l := newStack(t, s.client(t), stackOptions{ttl: 15 * time.Second, leases: 30})
			forgetAll(t, s.replica)
			end(t, s)
			assertFailover(t, l.held)
		})
	}
}

func TestAFailoverIsTheCauseOnACluster(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, c *testredis.Cluster){
		"killed": func(_ *testing.T, c *testredis.Cluster) { c.Masters[0].Kill() },
		"demoted": func(t *testing.T, c *testredis.Cluster) {
			require.NoError(t, c.Replicas[0].Client(t).ClusterFailover(t.Context()).Err())
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, true, "--cluster-node-timeout", "1000")
			l := newClusterStack(t, c, 15*time.Second)
			on, off := l.partition(t, c.Masters[0])
			forgetAll(t, c.Replicas[0])
			end(t, c)
			assertFailover(t, on)
			for _, h := range off {
				require.NoError(t, h.Err(), h.Key())
			}
		})
	}
}
