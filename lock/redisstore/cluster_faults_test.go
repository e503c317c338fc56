package redisstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// clusterLine is a lock client with leases on a cluster.
type clusterLine struct {
	*testredis.Cluster
	rdb    *redis.ClusterClient
	store  *Store
	client *lock.Client
	held   []*lock.Held

	mu      sync.Mutex // guards batches
	batches []renewal.BatchInfo
}

func newClusterLine(t *testing.T, c *testredis.Cluster, ttl time.Duration) *clusterLine {
	t.Helper()
	l := &clusterLine{Cluster: c, rdb: c.Client(t)}
	var err error
	l.store, err = New(l.rdb, nil)
	require.NoError(t, err)
	hooks := &renewal.Hooks{BatchDone: func(b renewal.BatchInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.batches = append(l.batches, b)
	}}
	l.client, err = lock.New(l.store, &lock.Options{Terms: lock.Terms{TTL: ttl}, Renewal: renewal.Options{Hooks: hooks}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.client.Close(ctx) // some of the masters do not answer
		_ = l.store.Close()
	})
	for i := range 300 {
		h, err := l.client.Mutex(fmt.Sprint(t.Name(), i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	return l
}

// parted returns the leases on a master, and all others.
func (l *clusterLine) parted(t *testing.T, master *testredis.Server) (on, off []*lock.Held) {
	t.Helper()
	for _, h := range l.held {
		n, err := l.store.cluster.master(t.Context(), slotOf(l.store.lockKey(h.Key())))
		require.NoError(t, err)
		if n.addr == master.Addr() {
			on = append(on, h)
		} else {
			off = append(off, h)
		}
	}
	require.NotEmpty(t, on)
	require.NotEmpty(t, off)
	return on, off
}

// TestADeadMasterHoldsUpNobodyElse: those with leases on it are told, the renewals
// of all others go on as if nothing had happened.
func TestADeadMasterHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, false, "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "3000")
			l := newClusterLine(t, c, ttl)
			dead, alive := l.parted(t, c.Masters[0])
			lane := l.store.cluster.node(c.Masters[0].Addr()).id
			require.NoError(t, end(c.Masters[0]))
			for _, h := range dead {
				select {
				case <-h.Done():
				case <-time.After(3 * ttl):
					require.Fail(t, "never told", h.Key())
				}
				var lost *renewal.LostError
				require.ErrorAs(t, h.Err(), &lost)
				assert.NotEqual(t, renewal.NotOwned, lost.Reason, "nobody has said so")
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
			h, err := l.client.Mutex("another on those that live " + sameNode(l.store, alive[0].Key())).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// sameNode returns the end of a name that lies where another does: a hash tag of
// the user's own does not exist, so one is searched for.
func sameNode(s *Store, name string) string {
	want := s.cluster.slots[slotOf(s.lockKey(name))].Load()
	for i := 0; ; i++ {
		end := fmt.Sprint(i)
		if s.cluster.slots[slotOf(s.lockKey("another on those that live "+end))].Load() == want {
			return end
		}
	}
}

// ends are ways in which a server ends.
var ends = map[string]func(*testredis.Server) error{
	"killed":  func(s *testredis.Server) error { s.Kill(); return nil },
	"stopped": (*testredis.Server).Stop,
}

// TestAReplicaTakesOver: no lease is lost when a master dies and its replica, which
// has all its keys, follows it within a third of the TTL.
func TestAReplicaTakesOver(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := testredis.StartCluster(t, 3, true, "--cluster-node-timeout", "1000")
			l := newClusterLine(t, c, ttl)
			require.NoError(t, c.Masters[0].Client(t).Wait(t.Context(), 1, 10*time.Second).Err())
			dead, _ := l.parted(t, c.Masters[0])
			lonely := newStore(t, l.rdb, &Options{Timeout: time.Minute})
			slot := slotOf(lonely.lockKey(dead[0].Key()))
			_, err := lonely.Inspect(t.Context(), dead[0].Key())
			require.NoError(t, err)
			require.NoError(t, end(c.Masters[0]))
			ended := time.Now()
			var single sync.WaitGroup
			single.Go(func() { _, _ = lonely.Inspect(t.Context(), dead[0].Key()) }) // it fails, or hangs
			for _, h := range dead {
				renewed := func() bool { return h.Err() != nil || h.Deadline().After(ended.Add(ttl)) }
				require.Eventually(t, renewed, 3*ttl, 10*time.Millisecond)
			}
			for _, h := range l.held {
				require.NoError(t, h.Err(), h.Key())
			}
			at := func(s *Store) string { return s.cluster.slots[slot].Load().addr }
			assert.Equal(t, c.Replicas[0].Addr(), at(l.store))
			require.Eventually(t, func() bool { return at(lonely) == at(l.store) }, 20*time.Second, 10*time.Millisecond,
				"a single request has made it look for the new master until there was one")
			require.NoError(t, lonely.Close())
			single.Wait()
			require.NoError(t, dead[0].Unlock(t.Context()))
			again, err := l.client.Mutex(dead[0].Key()).Lock(t.Context())
			require.NoError(t, err)
			assert.Greater(t, again.Token(), dead[0].Token())
		})
	}
}

// TestAReshardingCostsNothing: all leases of a master move to the next one while
// they are renewed, and then on to the third.
func TestAReshardingCostsNothing(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	c := testredis.StartCluster(t, 3, false)
	l := newClusterLine(t, c, ttl)
	moves := 0
	for i, from := range c.Masters[:2] {
		to := c.Masters[i+1]
		on, _ := l.parted(t, from)
		pause := ttl / time.Duration(len(on))
		for _, h := range on {
			slot := int(slotOf(l.store.lockKey(h.Key())))
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
	assert.Zero(t, l.client.Stats().Renewal.Unknown, "MOVED and ASK are followed")
	for _, h := range l.held {
		require.NoError(t, h.Unlock(t.Context()))
	}
}
