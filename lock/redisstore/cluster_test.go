package redisstore

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false)
	rdb := c.Client(t)
	t.Run("contract", func(t *testing.T) { contract(t, rdb, rdb, nil, locktest.AllModes) })
	t.Run("list", func(t *testing.T) { listingTheMasters(t, c, rdb) })
	t.Run("list while slots move", func(t *testing.T) { listingMovedSlots(t, c, rdb) })
	t.Run("lanes", func(t *testing.T) { lanesOfMasters(t, c, rdb) })
	t.Run("moving", func(t *testing.T) { movingSlots(t, c, rdb) })
	t.Run("verbs", func(t *testing.T) { verbsWhileASlotMoves(t, c, rdb) })
	t.Run("batch", func(t *testing.T) { batchOfAllModes(t, newStore(t, rdb, nil), rdb) })
	t.Run("releases", func(t *testing.T) { releasesWhileSlotsMove(t, c, rdb) })
}

// lanesOfMasters checks that each master is a lane, and renews a batch on all masters.
func lanesOfMasters(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	leases := acquireAll(t, s, "lane", 100)
	masters := map[int]string{}
	for _, l := range leases {
		master, err := rdb.MasterForKey(t.Context(), s.lockKey(l.Key))
		require.NoError(t, err)
		addr := master.Options().Addr
		lane := s.Lane(l)
		if known, ok := masters[lane]; ok {
			assert.Equal(t, known, addr)
		}
		masters[lane] = addr
		l.State = nil
		assert.Equal(t, lane, s.Lane(l), "a lease without State has the same lane")
	}
	assert.Len(t, masters, len(c.Masters))
	want := make([]renewal.Outcome, len(leases))
	for i := range want {
		want[i] = renewal.Renewed
	}
	require.NoError(t, rdb.Del(t.Context(), s.lockKey(leases[7].Key)).Err())
	want[7] = renewal.Lost
	assert.Equal(t, want, renew(t, s, leases...))
	require.NoError(t, rdb.ForEachMaster(t.Context(), func(ctx context.Context, m *redis.Client) error { return m.ScriptFlush(ctx).Err() }))
	assert.Equal(t, want, renew(t, s, leases...))
}

// movingSlots checks that one call of Renew renews leases whose slots have moved.
func movingSlots(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	leases := acquireAll(t, s, "moving", 30)
	bare := newStore(t, rdb, &Options{Prefix: s.prefix}) // does not know the slots yet
	want := make([]renewal.Outcome, len(leases))
	for i := range want {
		want[i] = renewal.Renewed
	}
	for i := range leases[:10] {
		l := leases[i]
		from := serverOf(t, c, s.lockKey(l.Key))
		to := other(c, from)
		slot := int(redisconn.SlotOf(s.lockKey(l.Key)))
		require.NoError(t, c.Move(t.Context(), slot, from, to))
		require.NoError(t, c.Agree(t.Context(), slot, to)) // otherwise the nodes redirect to each other
		assert.Equal(t, want, renew(t, s, leases...), "the store follows MOVED")
		n, err := s.redis.Master(t.Context(), uint16(slot))
		require.NoError(t, err)
		assert.Equal(t, to.Addr(), n.Addr(), "the store remembers the new master")
	}
	assert.Equal(t, want, renew(t, bare, leases...))
}

// verbsWhileASlotMoves uses a lock while its slot moves and all its keys have left the node
// that serves the slot.
func verbsWhileASlotMoves(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, &Options{Prefix: "verbs:", Timeout: long})
	l := acquire(t, s, request("k"))
	from, to, slot := openSlot(t, c, s.lockKey(l.Key))
	source, target := from.Client(t), to.Client(t)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l), "the keys have not moved yet")
	host, port := splitAddr(t, to)
	require.NoError(t, source.Do(t.Context(), "migrate", host, port, s.lockKey("k"), 0, 5000).Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l), "the store follows ASK")
	require.NoError(t, target.ScriptFlush(t.Context()).Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l), "the other server does not know the script")

	if hasUsers(t, source) {
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, asLimited(t, c, s.prefix, rightsOfAStore+" "+rightsOnACluster), l))
		without := asLimited(t, c, s.prefix, rightsOfAStore+" "+without(rightsOnACluster, "+asking"))
		require.ErrorContains(t, unknown(t.Context(), t, without, l), "NOPERM")
		_, err := asLimited(t, c, s.prefix, rightsOfAStore).Acquire(t.Context(), request("k"))
		require.ErrorContains(t, err, "NOPERM")
	}

	done := make(chan error)
	go func() { done <- s.Release(t.Context(), l) }() // TRYAGAIN: the keys are on two nodes
	select {
	case err := <-done:
		require.Fail(t, "Release must wait for the slot", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, c.Move(t.Context(), slot, from, to))
	require.NoError(t, <-done)
	next := acquire(t, s, request("k"))
	assert.Greater(t, next.Token, l.Token)
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, 1, info.Held)
	require.NoError(t, s.ForceRelease(t.Context(), "k"))
}

// openSlot starts to move the slot of a key.
func openSlot(t *testing.T, c *testredis.Cluster, key string) (from, to *testredis.Server, slot int) {
	t.Helper()
	from, slot = serverOf(t, c, key), int(redisconn.SlotOf(key))
	to = other(c, from)
	source, target := from.Client(t), to.Client(t)
	id := func(rdb *redis.Client) string { return rdb.Do(t.Context(), "cluster", "myid").Val().(string) }
	require.NoError(t, target.Do(t.Context(), "cluster", "setslot", slot, "importing", id(source)).Err())
	require.NoError(t, source.Do(t.Context(), "cluster", "setslot", slot, "migrating", id(target)).Err())
	return from, to, slot
}

// serverOf returns the master that has a key.
func serverOf(t *testing.T, c *testredis.Cluster, key string) *testredis.Server {
	t.Helper()
	for _, m := range c.Masters {
		rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
		defer rdb.Close()
		if rdb.Exists(t.Context(), key).Val() == 1 {
			return m
		}
	}
	require.Fail(t, "no master has the key")
	return nil
}

func other(c *testredis.Cluster, than *testredis.Server) *testredis.Server {
	for i, m := range c.Masters {
		if m == than {
			return c.Masters[(i+1)%len(c.Masters)]
		}
	}
	return nil
}

func splitAddr(t *testing.T, s *testredis.Server) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	return host, port
}

// asLimited returns a store of a user who has only the given rights.
func asLimited(t *testing.T, c *testredis.Cluster, prefix, rights string) *Store {
	t.Helper()
	user := testredis.ChannelRules(append([]any{"acl", "setuser", "limited", "reset", "on", ">pw", "~*", "&*", "-@all"}, fields(rights)...)...)
	for _, m := range c.Masters {
		require.NoError(t, m.Client(t).Do(t.Context(), user...).Err())
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Username: "limited", Password: "pw"})
	t.Cleanup(func() { rdb.Close() })
	return newStore(t, rdb, &Options{Prefix: prefix})
}
