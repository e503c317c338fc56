package redisstore

import (
	"context"
	"net"
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

// TestTheCauseOfALossOnAServer injects each cause that a server can have.
func TestTheCauseOfALossOnAServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inject func(t *testing.T, srv *testredis.Server, s *Store, key string)
		want   renewal.Cause
		seen   string
	}{
		"the key is deleted": {func(t *testing.T, srv *testredis.Server, s *Store, key string) {
			require.NoError(t, srv.Client(t).Del(t.Context(), s.lockKey(key)).Err())
		}, renewal.CauseKeyMissing, "the store has no such lease"},
		"all keys are deleted": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			require.NoError(t, srv.Client(t).FlushAll(t.Context()).Err())
		}, renewal.CauseKeyMissing, "the store has no such lease"},
		"another owner has it": {func(t *testing.T, srv *testredis.Server, s *Store, key string) {
			rdb := srv.Client(t)
			require.NoError(t, rdb.Del(t.Context(), s.lockKey(key)).Err())
			acquire(t, newStore(t, rdb, &Options{Prefix: s.prefix}), request(key))
		}, renewal.CauseTakenOver, "another owner has the lease"},
		"the server restarts without data": {func(t *testing.T, srv *testredis.Server, s *Store, _ string) {
			srv.Kill()
			require.NoError(t, srv.Restart())
			_, err := s.Inspect(t.Context(), "other") // by a new connection; so the next renewal asks who answers
			require.NoError(t, err)
		}, renewal.CauseFailover, "another server process answered: "},
		"the server is demoted in place": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			host, port, err := net.SplitHostPort(testredis.Start(t).Addr())
			require.NoError(t, err)
			require.NoError(t, srv.Client(t).ReplicaOf(t.Context(), host, port).Err())
		}, renewal.CauseFailover, "another server process answered: "},
		"the server is down": {func(_ *testing.T, srv *testredis.Server, _ *Store, _ string) {
			srv.Kill()
		}, renewal.CauseNetwork, "failed within "},
		"the server hangs": {func(t *testing.T, srv *testredis.Server, _ *Store, _ string) {
			require.NoError(t, srv.Stop())
			t.Cleanup(func() { _ = srv.Cont() })
		}, renewal.CauseNoAnswer, "no answer within "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testredis.Start(t)
			s := newStore(t, srv.Client(t), nil)
			lost := loseAfter(t, s, func() { c.inject(t, srv, s, "k") })
			assertCause(t, c.want, lost)
			assert.Contains(t, lost.Seen(), c.seen)
		})
	}
}

// assertCause checks the cause of a loss. A machine that is too busy to take the answers cannot tell, and says so.
func assertCause(t *testing.T, want renewal.Cause, lost *renewal.LostError) {
	t.Helper()
	if lost.Cause() == renewal.CauseUnknown && strings.Contains(lost.Seen(), "the process did not run") {
		return
	}
	assert.Equal(t, want, lost.Cause(), lost.Seen())
}

// loseAfter holds the lock k until it is lost after inject.
func loseAfter(t *testing.T, s *Store, inject func()) *renewal.LostError {
	t.Helper()
	renewed := make(chan struct{}, 1)
	hooks := &lock.Hooks{BatchDone: func(b renewal.BatchInfo) {
		if b.Renewed > 0 && b.Took < 500*time.Millisecond { // a slow one would be a cause
			select {
			case renewed <- struct{}{}:
			default:
			}
		}
	}}
	client, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 5 * time.Second}, Hooks: hooks})
	require.NoError(t, err)
	defer client.Close(t.Context())
	held, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	<-renewed // the store has a connection for renewals
	inject()
	<-held.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, held.Err(), &lost)
	t.Logf("%v: %v", lost.Cause(), lost.Seen())
	return lost
}

// The network drops all packets: connections are silent, and none can be opened. A server that hangs looks the same.
func TestANetworkThatDropsPacketsGivesNoAnswer(t *testing.T) {
	t.Parallel()
	proxy := testredis.StartProxy(t, testredis.Start(t))
	drops := make(chan struct{})
	options := *proxy.Client(t).Options()
	options.DialTimeout = 500 * time.Millisecond
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case <-drops: // SYN packets, too
			<-ctx.Done()
			return nil, ctx.Err()
		default:
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}
	rdb := redis.NewClient(&options)
	defer rdb.Close()
	lost := loseAfter(t, newStore(t, rdb, nil), func() {
		close(drops)
		proxy.Block()
	})
	assertCause(t, renewal.CauseNoAnswer, lost)
}

// The answers take most of an attempt, and then too long.
func TestASlowServerIsTheCause(t *testing.T) {
	t.Parallel()
	proxy := testredis.StartProxy(t, testredis.Start(t))
	rdb := proxy.Client(t)
	lost := loseAfter(t, newStore(t, rdb, nil), func() {
		proxy.Delay(1200 * time.Millisecond) // an attempt has 1.7 s
		time.Sleep(4 * time.Second)
		proxy.Delay(time.Minute)
	})
	assertCause(t, renewal.CauseServerSlow, lost)
	assert.Regexp(t, `the server took 1\.[2-7]`, lost.Seen(), "the delay, and at most an attempt")
}

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
