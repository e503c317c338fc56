package check

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/histories"
)

const (
	faultTTL = 4 * time.Second // some elections long
	patience = time.Minute     // until a state is reached that must come
)

// leaderOf returns the leader and the other members of a cluster.
func leaderOf(t *testing.T, client *clientv3.Client, members []*member) (leader *member, others []*member) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader, others = nil, nil
		for _, m := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			status, err := client.Status(ctx, m.client)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				leader = m
			} else {
				others = append(others, m)
			}
		}
		return leader != nil && len(others) == len(members)-1
	}, time.Minute, 20*time.Millisecond)
	return leader, others
}

func newLocks(t *testing.T, members ...*member) *lock.Client {
	t.Helper()
	locks, err := lock.New(open(t, connect(t, members...)), &lock.Options{Terms: lock.Terms{TTL: faultTTL}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = locks.Close(ctx)
	})
	return locks
}

func TestTheLeaderFailsUnderLoad(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	client := connect(t, members...)
	l := histories.NewLoad(t, faultTTL, newLocks(t, members...), newLocks(t, members...))
	l.Progress()
	leader, _ := leaderOf(t, client, members)
	l.Fault(leader.kill)
	l.Progress() // with a new leader
	leader.start(t)
	l.Progress() // with all members
	leader, _ = leaderOf(t, client, members)
	leader.signal(t, testprocess.Stop)
	l.Progress()
	leader.kill() // if it went on, it could revoke leases that its successor has renewed
	leader.start(t)
	l.Progress()
	l.Stop()
}

// newLink returns a link to the clients' port of a member.
func newLink(t *testing.T, m *member) *testproxy.Proxy {
	t.Helper()
	link, err := testproxy.New("tcp", strings.TrimPrefix(m.client, "http://"))
	require.NoError(t, err)
	t.Cleanup(link.Close)
	return link
}

// One client reaches only the leader, which loses its peers and believes for a while that it leads.
// The other client goes on with a new leader.
func TestTheLeaderIsCutOffUnderLoad(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 3)
	client := connect(t, members...)
	leader, others := leaderOf(t, client, members)
	l := histories.NewLoad(t, faultTTL, newLocks(t, leader), newLocks(t, others...))
	l.Progress()
	l.Renewed(0)
	heal := func() {}
	l.Fault(func() { heal = cutOff(t, client, leader, others...) })
	leaderOf(t, connect(t, others...), others) // a new one
	l.Progress()
	l.Renewed(1)
	heal()
	l.Progress()
	l.Renewed(0)
	l.Stop()
}

// The network between one client and all members, or one of them, drops everything.
func TestAClientIsCutOffUnderLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ cut, goesOn int }{
		"from all members": {3, 1},
		"from one member":  {1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := startCluster(t, 3)
			var links []*testproxy.Proxy
			var behind []*member
			for _, m := range members {
				link := newLink(t, m)
				links, behind = append(links, link), append(behind, &member{client: "http://" + link.Addr()})
			}
			l := histories.NewLoad(t, faultTTL, newLocks(t, behind...), newLocks(t, members...))
			l.Progress()
			l.Renewed(0)
			l.Fault(func() {
				for _, link := range links[:c.cut] {
					link.Block()
				}
			})
			l.Renewed(c.goesOn)
			l.Progress()
			for _, link := range links[:c.cut] {
				link.Unblock()
			}
			l.Renewed(0)
			l.Progress()
			l.Stop()
		})
	}
}

// A client without options but its endpoints, of which one is unknown. The server gets another address. If the old
// one is silent, the client needs options to notice it.
func TestNamesOfServers(t *testing.T) {
	t.Parallel()
	for name, move := range testproxy.Moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startCluster(t, 1)[0]
			moved := testproxy.NewMoved(t, strings.TrimPrefix(server.client, "http://"))
			config := clientv3.Config{Endpoints: []string{testproxy.NewName() + ":1", "http://" + moved.Addr()}, Logger: zap.NewNop()}
			if name == "silent" {
				config.DialKeepAliveTime, config.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
			}
			client, err := clientv3.New(config)
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			s := open(t, client)
			l := acquire(t, s, driver.Request{Key: "k", Owner: "a:1", TTL: time.Minute})
			move(moved)
			out := []renewal.Outcome{renewal.Unknown}
			require.Eventually(t, func() bool { return s.Renew(t.Context(), []driver.Lease{l}, out) == nil }, patience, 10*time.Millisecond)
			assert.Equal(t, renewal.Renewed, out[0])
		})
	}
}

// The client dials less and less often while the server is away, here after one attempt an hour.
func TestAServerComesBackAfterALongTime(t *testing.T) {
	t.Parallel()
	server := startCluster(t, 1)[0]
	slow := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}, MinConnectTimeout: time.Second})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.client}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{slow}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, client)
	acquire(t, s, driver.Request{Key: "before", Owner: "a:1", TTL: time.Minute})
	server.kill()
	require.Eventually(t, func() bool {
		client.ActiveConnection().Connect()
		return client.ActiveConnection().GetState() == connectivity.TransientFailure
	}, patience, time.Millisecond)
	server.start(t)
	acquire(t, s, driver.Request{Key: "after", Owner: "a:1", TTL: time.Minute})
}
