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
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// sentinelSetup is a master, its replica, and a sentinel that monitors them.
type sentinelSetup struct {
	master, replica *testredis.Server
	atReplica       *redis.Client
	addr            string // of the sentinel
	sentinel        *redis.SentinelClient
}

func startSentinel(t testing.TB) *sentinelSetup {
	t.Helper()
	s := &sentinelSetup{master: testredis.Start(t, "--repl-diskless-sync-delay", "0")}
	host, port, err := net.SplitHostPort(s.master.Addr())
	require.NoError(t, err)
	s.replica = testredis.Start(t, "--replicaof", host, port)
	s.atReplica = s.replica.Client(t)
	synced := func() bool {
		return strings.Contains(s.atReplica.Info(t.Context(), "replication").Val(), "master_link_status:up")
	}
	require.Eventually(t, synced, 10*time.Second, 5*time.Millisecond, "the sentinel finds the replica at once")
	path := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("sentinel monitor m %s %s 1\nsentinel down-after-milliseconds m 500\n", host, port)
	require.NoError(t, os.WriteFile(path, []byte(conf), 0o600))
	s.addr = testredis.Start(t, path, "--sentinel").Addr()
	s.sentinel = redis.NewSentinelClient(&redis.Options{Addr: s.addr})
	t.Cleanup(func() { s.sentinel.Close() })
	if testredis.Since(7, 0) {
		// Otherwise a sentinel that stands still for 2 s on a busy machine does nothing for the next 30 s.
		tilt := redis.NewStatusCmd(t.Context(), "sentinel", "debug", "tilt-trigger", time.Minute.Milliseconds())
		require.NoError(t, s.sentinel.Process(t.Context(), tilt))
	}
	knowsReplica := func() bool {
		replicas, err := s.sentinel.Replicas(t.Context(), "m").Result()
		return err == nil && len(replicas) == 1
	}
	require.Eventually(t, knowsReplica, 20*time.Second, 50*time.Millisecond)
	return s
}

func (s *sentinelSetup) client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{s.addr}})
	t.Cleanup(func() { rdb.Close() }) // after the store that uses its Dialer
	return rdb
}

// demote makes the replica the master, once the sentinel knows that it can be.
func (s *sentinelSetup) demote(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return s.sentinel.Failover(t.Context(), "m").Err() == nil }, 20*time.Second, 50*time.Millisecond)
}

// The replica has all data of the dead master.
func TestLeasesSurviveTheDeathOfTheMaster(t *testing.T) {
	t.Parallel()
	s := startSentinel(t)
	l := newStack(t, s.client(t), stackOptions{ttl: 15 * time.Second})
	require.NoError(t, s.master.Client(t).Wait(t.Context(), 1, 10*time.Second).Err())
	s.master.Kill()
	l.renewedAfter(t, time.Now())
	l.assertHeld(t)
	require.NoError(t, l.held[0].Unlock(t.Context()))
}

// The store uses the new master although the old one still serves.
func TestAFailoverBySentinel(t *testing.T) {
	t.Parallel()
	at := startSentinel(t)
	s := newStore(t, at.client(t), nil)
	l := acquire(t, s, request("k"))
	require.Eventually(t, func() bool { return at.atReplica.Exists(t.Context(), s.lockKey("k")).Val() == 1 }, 10*time.Second, 5*time.Millisecond)
	at.demote(t)

	var outcomes [renewal.LostTaken + 1]int
	var switched time.Time // when Sentinel reported the new master
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "outcomes: %v", outcomes)
		out := make([]renewal.Outcome, 1)
		_ = s.Renew(t.Context(), []driver.Lease{l}, out)
		outcomes[out[0]]++
		if switched.IsZero() {
			addr, err := at.sentinel.GetMasterAddrByName(t.Context(), "m").Result()
			require.NoError(t, err)
			if net.JoinHostPort(addr[0], addr[1]) == at.replica.Addr() {
				switched = time.Now()
			}
			continue
		}
		if time.Since(switched) > 1100*time.Millisecond && out[0] == renewal.Renewed {
			break
		}
	}
	assert.Zero(t, outcomes[renewal.Lost]+outcomes[renewal.LostMissing]+outcomes[renewal.LostTaken])
	next := acquire(t, s, request("next"))
	assert.EqualValues(t, 1, at.atReplica.Exists(t.Context(), s.lockKey("next")).Val(), "the lock is on the new master")
	assert.NotZero(t, next.Token)
	t.Log("unknown, renewed, lost:", outcomes)
}
