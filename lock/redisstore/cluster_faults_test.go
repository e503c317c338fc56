package redisstore

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

// clusterLine is a lock client with leases on a cluster.
type clusterStack struct {
	*testredis.Cluster
	rdb    *redis.ClusterClient
	store  *Store
	client *lock.Client
	held   []*lock.Held

	mu      sync.Mutex // guards batches
	batches []renewal.BatchInfo
}

func newClusterStack(t *testing.T, c *testredis.Cluster, ttl time.Duration) *clusterStack {
	t.Helper()
	l := &clusterStack{Cluster: c, rdb: c.Client(t)}
	var err error
	l.store, err = New(l.rdb, nil)
	require.NoError(t, err)
	hooks := &lock.Hooks{BatchDone: func(b renewal.BatchInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.batches = append(l.batches, b)
	}}
	l.client, err = lock.New(l.store, &lock.Options{Terms: lock.Terms{TTL: ttl}, Hooks: hooks})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.client.Close(ctx) // fails if a master does not answer
		_ = l.store.Close()
	})
	for i := range 90 {
		h, err := l.client.Mutex(fmt.Sprint(t.Name(), i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	return l
}

// partition returns the leases on a master, and the other leases.
func (l *clusterStack) partition(t *testing.T, master *testredis.Server) (on, off []*lock.Held) {
	t.Helper()
	for _, h := range l.held {
		n, err := l.store.redis.Master(t.Context(), redisconn.SlotOf(l.store.lockKey(h.Key())))
		require.NoError(t, err)
		if n.Addr() == master.Addr() {
			on = append(on, h)
		} else {
			off = append(off, h)
		}
	}
	require.NotEmpty(t, on)
	require.NotEmpty(t, off)
	return on, off
}

// The holders of leases on the dead master learn of the loss. The renewals of all other
// leases continue on time.
func TestADeadMasterDelaysOnlyItsOwnLeases(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, false, "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "3000")
			l := newClusterStack(t, c, ttl)
			dead, alive := l.partition(t, c.Masters[0])
			lane := -1
			for slot := range uint16(redisconn.SlotCount) {
				if n := l.store.redis.Serving(slot); n != nil && n.Addr() == c.Masters[0].Addr() {
					lane = n.ID()
				}
			}
			require.NoError(t, end(c.Masters[0]))
			for _, h := range dead {
				select {
				case <-h.Done():
				case <-time.After(3 * ttl):
					require.Fail(t, "no loss is reported", h.Key())
				}
				var lost *renewal.LostError
				require.ErrorAs(t, h.Err(), &lost)
				assert.NotEqual(t, renewal.ReasonNotOwned, lost.Reason, "no server has reported the loss")
			}
			for _, h := range alive {
				require.NoError(t, h.Err(), h.Key())
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			renewed := 0
			for _, b := range l.batches {
				if b.Lane == lane {
					continue
				}
				assert.NoError(t, b.Err)
				assert.Less(t, b.Late, ttl/3)
				assert.Less(t, b.Took, ttl/3)
				renewed += b.Renewed
			}
			assert.Greater(t, renewed, len(alive))
			h, err := l.client.Mutex("another on a live master " + sameNode(l.store, alive[0].Key())).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// sameNode returns the end of a lock name whose slot is on the same node as another name.
// It searches for one, because users cannot choose the hash tag of a lock.
func sameNode(s *Store, name string) string {
	want := s.redis.Serving(redisconn.SlotOf(s.lockKey(name)))
	for i := 0; ; i++ {
		end := fmt.Sprint(i)
		if s.redis.Serving(redisconn.SlotOf(s.lockKey("another on a live master "+end))) == want {
			return end
		}
	}
}

// ends are the ways in which a server stops to answer.
var ends = map[string]func(*testredis.Server) error{
	"killed":  func(s *testredis.Server) error { s.Kill(); return nil },
	"stopped": (*testredis.Server).Stop,
}

// awaitReplica returns when the only replica of a server has all that it has executed. WAIT would not do: it answers for the
// writes of its own connection.
func awaitReplica(t *testing.T, s *testredis.Server) {
	t.Helper()
	admin := s.Client(t)
	offset := func(field string) int64 {
		_, after, _ := strings.Cut(admin.Info(t.Context(), "replication").Val(), field)
		n, _ := strconv.ParseInt(after[:strings.IndexAny(after+",", ",\r")], 10, 64)
		return n
	}
	executed := offset("master_repl_offset:")
	require.Positive(t, executed)
	require.Eventually(t, func() bool { return offset(",offset=") >= executed }, 30*time.Second, 5*time.Millisecond)
}

// No lease is lost if the replica of a dead master has all its keys and takes over within a
// third of the TTL.
func TestLeasesSurviveAFailover(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, true, "--cluster-node-timeout", "1000")
			l := newClusterStack(t, c, ttl)
			awaitReplica(t, c.Masters[0])
			dead, _ := l.partition(t, c.Masters[0])
			lonely := newStore(t, l.rdb, &Options{Timeout: time.Minute})
			slot := redisconn.SlotOf(lonely.lockKey(dead[0].Key()))
			_, err := lonely.Inspect(t.Context(), dead[0].Key())
			require.NoError(t, err)
			require.NoError(t, end(c.Masters[0]))
			ended := time.Now()
			var single sync.WaitGroup
			single.Go(func() { _, _ = lonely.Inspect(t.Context(), dead[0].Key()) }) // fails or hangs
			for _, h := range dead {
				renewed := func() bool { return h.Err() != nil || h.Deadline().After(ended.Add(ttl)) }
				require.Eventually(t, renewed, 3*ttl, 10*time.Millisecond)
			}
			for _, h := range l.held {
				require.NoError(t, h.Err(), h.Key())
			}
			at := func(s *Store) string { return s.redis.Serving(slot).Addr() }
			assert.Equal(t, c.Replicas[0].Addr(), at(l.store))
			require.Eventually(t, func() bool { return at(lonely) == at(l.store) }, 20*time.Second, 10*time.Millisecond,
				"a single request makes the store look for the new master until there is one")
			require.NoError(t, lonely.Close())
			single.Wait()
			require.NoError(t, dead[0].Unlock(t.Context()))
			again, err := l.client.Mutex(dead[0].Key()).Lock(t.Context())
			require.NoError(t, err)
			assert.Greater(t, again.Token(), dead[0].Token())
		})
	}
}

// All leases of a master move to the next master while they are renewed, and then to the
// third.
func TestLeasesSurviveAResharding(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second // two renewals may each be late by seconds on a busy machine
	c := testredis.StartCluster(t, 3, false)
	l := newClusterStack(t, c, ttl)
	moves := 0
	for i, from := range c.Masters[:2] {
		to := c.Masters[i+1]
		on, _ := l.partition(t, from)
		pause := ttl * 2 / 3 / time.Duration(len(on)) // two renewals of each lease meet the moves
		for _, h := range on {
			slot := int(redisconn.SlotOf(l.store.lockKey(h.Key())))
			require.NoError(t, c.Move(t.Context(), slot, from, to))
			if moves++; h == on[len(on)-1] {
				require.NoError(t, c.Agree(t.Context(), slot, to))
			}
			time.Sleep(pause)
		}
	}
	for _, h := range l.held {
		require.NoError(t, h.Err(), h.Key())
	}
	t.Log("slots moved:", moves)
	assert.Zero(t, l.client.Stats().Renewal.Lost())
	// Without redirections, renewals would fail for every slot that moves. On a busy machine one
	// batch may be late.
	assert.Less(t, l.client.Stats().Renewal.Unknown, uint64(moves/2), "the store follows MOVED and ASK")
	for _, h := range l.held {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

func TestAClusterWithoutAddressesReturnsAnError(t *testing.T) {
	t.Parallel()
	if !testredis.Since(7, 0) {
		t.Skip("this server always tells addresses")
	}
	c := testredis.StartCluster(t, 1, false)
	require.NoError(t, c.Masters[0].Client(t).ConfigSet(t.Context(), "cluster-preferred-endpoint-type", "unknown-endpoint").Err())
	_, err := newStore(t, c.Client(t), nil).Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "cluster-preferred-endpoint-type")
}

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
