package redisstore

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// TestAFailover shows that a client made for Sentinel works, and that the store
// goes with it to the new master.
func TestAFailover(t *testing.T) {
	t.Parallel()
	master := testredis.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	replica := testredis.Start(t, "--replicaof", host, port)
	atReplica := replica.Client(t)
	synced := func() bool {
		return strings.Contains(atReplica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	}
	require.Eventually(t, synced, 10*time.Second, 5*time.Millisecond, "so that the sentinel sees it at once")
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("sentinel monitor m %s %s 1\nsentinel down-after-milliseconds m 500\n", host, port)
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	sentinelAddr := testredis.Start(t, path, "--sentinel").Addr()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: sentinelAddr})
	defer sentinel.Close()

	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{sentinelAddr}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	defer s.Close() // before the client whose Dialer it uses
	l := acquire(t, s, request("k"))
	require.Eventually(t, func() bool { return atReplica.Exists(t.Context(), s.lockKey("k")).Val() == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return sentinel.Failover(t.Context(), "m").Err() == nil }, 20*time.Second, 50*time.Millisecond,
		"the sentinel knows the replica")

	var outcomes [3]int
	var switched time.Time // when Sentinel said so
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "outcomes: %v", outcomes)
		out := make([]renewal.Outcome, 1)
		_ = s.Renew(t.Context(), []lock.Lease{l}, out)
		outcomes[out[0]]++
		if switched.IsZero() {
			addr, err := sentinel.GetMasterAddrByName(t.Context(), "m").Result()
			require.NoError(t, err)
			if net.JoinHostPort(addr[0], addr[1]) == replica.Addr() {
				switched = time.Now()
			}
			continue
		}
		if time.Since(switched) > failoverLifetime+100*time.Millisecond && out[0] == renewal.Renewed {
			break
		}
	}
	assert.Zero(t, outcomes[renewal.Lost])
	next := acquire(t, s, request("next"))
	assert.EqualValues(t, 1, atReplica.Exists(t.Context(), s.lockKey("next")).Val(), "on the new master, though the old one still serves")
	assert.NotZero(t, next.Token)
	t.Log("unknown, renewed, lost:", outcomes)
}
