package redisson

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 3, false)
	rdb := c.Client(t)
	t.Run("sharded", func(t *testing.T) { shardedMessages(t, c, rdb) })
	t.Run("not sharded", func(t *testing.T) { plainMessages(t, c, rdb) })
	t.Run("braces", func(t *testing.T) { namesWithBraces(t, rdb) })
	t.Run("renewals", func(t *testing.T) { renewalsOnAllMasters(t, c, rdb) })
	t.Run("moving", func(t *testing.T) { waitWhileASlotMoves(t, c, rdb) })
	t.Run("contract", func(t *testing.T) { contract(t, rdb, Lock) })
}

// channels returns the channels of all nodes that the command "PUBSUB what" lists.
func channels(t testing.TB, c *testredis.Cluster, what string) []string {
	t.Helper()
	var all []string
	for _, s := range c.Masters {
		found, err := s.Client(t).Do(t.Context(), "PUBSUB", what).StringSlice()
		require.NoError(t, err)
		all = append(all, found...)
	}
	return all
}

// waitFor starts a Wait and returns when its channel is subscribed.
func waitFor(t *testing.T, c *testredis.Cluster, s *Store, r driver.Request, what string) chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		l, err := s.Wait(t.Context(), r)
		if err == nil {
			l.Request = r
			err = s.Release(t.Context(), l)
		}
		done <- err
	}()
	require.Eventually(t, func() bool {
		all := strings.Join(channels(t, c, what), " ")
		return strings.Contains(all, s.waitChannel(r.Mode, s.newState(&r, 0)))
	}, 20*time.Second, 10*time.Millisecond)
	return done
}

// soon expects that a waiter is served long before it would ask again.
func soon(t *testing.T, done chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(maxSleep * 2 / 3):
		require.Fail(t, "the message has not woken the waiter")
	}
}

func handOver(t *testing.T, c *testredis.Cluster, o Options, what string) {
	t.Helper()
	a, b := newStore(t, c.Client(t), &o), newStore(t, c.Client(t), &o)
	for _, key := range []string{"one", "two", "three", "four"} { // on several masters
		key += what
		l, err := a.Acquire(t.Context(), request(ann, key, driver.Exclusive))
		require.NoError(t, err)
		done := waitFor(t, c, b, request(bob, key, driver.Exclusive), what)
		require.NoError(t, a.Release(t.Context(), l))
		soon(t, done)
	}
}

func shardedMessages(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	for _, kind := range []Kind{Lock, FairLock} {
		handOver(t, c, Options{Kind: kind, Prefix: kind.String()}, "SHARDCHANNELS")
	}
	assert.Empty(t, channels(t, c, "CHANNELS"))
	s := newStore(t, rdb, nil)
	publish, err := s.publishCommand(t.Context(), "n")
	require.NoError(t, err)
	assert.Equal(t, "SPUBLISH", publish)
}

func plainMessages(t *testing.T, c *testredis.Cluster, _ *redis.ClusterClient) {
	handOver(t, c, Options{Sharding: ShardingOff}, "CHANNELS")
}

func namesWithBraces(t *testing.T, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	for _, key := range []string{"a{b", "{}a", "}a"} {
		_, err := s.Acquire(t.Context(), request(ann, key, driver.Exclusive))
		require.ErrorIs(t, err, driver.ErrBadKey, key)
		require.ErrorContains(t, err, "redisson: acquire ", key)
	}
	l, err := s.Acquire(t.Context(), request(ann, "a{b}", driver.Exclusive))
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), l))

	latch := s.Latch("a{b}")
	_, set := latch.TrySetCount(t.Context(), 1)
	_, deleted := latch.Delete(t.Context())
	_, counted := latch.Count(t.Context())
	for i, err := range []error{set, deleted, counted, latch.CountDown(t.Context()), latch.Await(t.Context())} {
		require.ErrorIs(t, err, driver.ErrBadKey, "the channel of a latch has braces of its own: %d", i)
		assert.ErrorContains(t, err, `"a{b}"`)
	}
	plain := s.Latch("n")
	done, err := plain.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, plain.CountDown(t.Context()))
	require.NoError(t, plain.Await(t.Context()))
}

func renewalsOnAllMasters(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, &Options{Kind: FencedLock})
	var leases []driver.Lease
	lanes := make(map[int]bool)
	for _, key := range strings.Fields("a b c d e f g h i j k l m n o p") {
		l, err := s.Acquire(t.Context(), request(ann, "renew "+key, driver.Exclusive))
		require.NoError(t, err)
		leases = append(leases, l)
		lanes[s.Lane(l)] = true
	}
	assert.Len(t, lanes, len(c.Masters))
	leases[3].Token++
	want := make([]renewal.Outcome, len(leases))
	for i := range want {
		want[i] = renewal.Renewed
	}
	want[3] = renewal.Lost
	out := make([]renewal.Outcome, len(leases))
	require.NoError(t, s.Renew(t.Context(), leases, out))
	assert.Equal(t, want, out)
}

// waitWhileASlotMoves moves the slot of a lock while there is a holder, which renews, and a waiter.
func waitWhileASlotMoves(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	a, b := newStore(t, rdb, nil), newStore(t, c.Client(t), nil)
	l, err := a.Acquire(t.Context(), request(ann, "moving", driver.Exclusive))
	require.NoError(t, err)
	done := waitFor(t, c, b, request(bob, "moving", driver.Exclusive), "SHARDCHANNELS")
	slot := int(redisconn.SlotOf("moving"))
	owner, err := rdb.MasterForKey(t.Context(), "moving")
	require.NoError(t, err)
	var from, to *testredis.Server
	for _, s := range c.Masters {
		if s.Addr() == owner.Options().Addr {
			from = s
		} else {
			to = s
		}
	}
	require.NoError(t, c.Move(t.Context(), slot, from, to))
	out := make([]renewal.Outcome, 1)
	require.NoError(t, a.Renew(t.Context(), []driver.Lease{l}, out))
	assert.Equal(t, renewal.Renewed, out[0])
	require.Eventually(t, func() bool {
		all, err := to.Client(t).Do(context.WithoutCancel(t.Context()), "PUBSUB", "SHARDCHANNELS").StringSlice()
		return err == nil && strings.Contains(strings.Join(all, " "), "{moving}")
	}, 20*time.Second, 10*time.Millisecond, "the waiter subscribes at the new master")
	require.NoError(t, a.Release(t.Context(), l))
	soon(t, done)
}
