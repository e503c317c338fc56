package redisson

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	t.Run("automatic", func(t *testing.T) { automaticMessages(t, c, rdb) })
	t.Run("not sharded", func(t *testing.T) { plainMessages(t, c, rdb) })
	t.Run("braces", func(t *testing.T) { namesWithBraces(t, rdb) })
	t.Run("renewals", func(t *testing.T) { renewalsOnAllMasters(t, c, rdb) })
	t.Run("moving", func(t *testing.T) { waitWhileASlotMoves(t, c, rdb) })
	t.Run("contract", func(t *testing.T) { contract(t, rdb, KindLock) })
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
		l, err := s.Wait(t.Context(), r, func() {})
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

// automatic returns the command that ShardingAuto selects, and the PUBSUB command that lists its
// channels: those of a server before Redis 7 are not sharded.
func automatic(t *testing.T, c *testredis.Cluster) (publish, list string) {
	t.Helper()
	if c.Masters[0].Client(t).Do(t.Context(), "PUBSUB", "SHARDNUMSUB").Err() != nil {
		return "PUBLISH", "CHANNELS"
	}
	return "SPUBLISH", "SHARDCHANNELS"
}

func automaticMessages(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	want, list := automatic(t, c)
	for _, kind := range []Kind{KindLock, KindFairLock} {
		handOver(t, c, Options{Kind: kind, Prefix: kind.String()}, list)
	}
	if want == "SPUBLISH" {
		assert.Empty(t, channels(t, c, "CHANNELS"))
	}
	s := newStore(t, rdb, nil)
	publish, err := s.publishCommand(t.Context(), "n")
	require.NoError(t, err)
	assert.Equal(t, want, publish)
}

// A cluster before Redis 7 does not know SPUBLISH.
func TestAClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards probes
	probes := 0
	published, subscribed := make(chan string, 10), make(chan []string, 10)
	server := &testredis.Wire{Answer: func(command []string) string {
		switch strings.ToLower(command[0]) {
		case "pubsub":
			mu.Lock()
			defer mu.Unlock()
			probes++
			return "-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.\r\n"
		case "eval", "evalsha":
			if i := slices.IndexFunc(command, func(word string) bool { return strings.HasSuffix(word, "PUBLISH") }); i > 0 {
				published <- command[i]
				return ":1\r\n"
			}
			return "*2\r\n:0\r\n:30000\r\n" // taken for 30 s
		case "subscribe", "ssubscribe":
			subscribed <- command
			return fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(command[1]), command[1])
		}
		return "+OK\r\n"
	}}
	addr := server.Client(t, redis.Options{}).Options().Addr
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{Start: 0, End: redisconn.SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := newStore(t, rdb, nil)
	for range 3 {
		require.NoError(t, s.Release(t.Context(), driver.Lease{Request: request(ann, "n", driver.Exclusive)}))
		assert.Equal(t, "PUBLISH", <-published)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, request(bob, "n", driver.Exclusive), func() {})
		done <- err
	}()
	select {
	case command := <-subscribed:
		assert.Equal(t, []string{"subscribe", lockChannel("n")}, command)
	case <-time.After(maxSleep * 2 / 3):
		assert.Fail(t, "the waiter has not subscribed")
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, probes, "the store remembers the answer")
}

func plainMessages(t *testing.T, c *testredis.Cluster, _ *redis.ClusterClient) {
	handOver(t, c, Options{Sharding: ShardingOff}, "CHANNELS")
}

func namesWithBraces(t *testing.T, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, nil)
	for _, key := range []string{"a{b", "{}a", "}a"} {
		_, err := s.Acquire(t.Context(), request(ann, key, driver.Exclusive))
		require.ErrorIs(t, err, driver.ErrBadKey, key)
		require.ErrorContains(t, err, "redisson: acquire: ", key)
	}
	l, err := s.Acquire(t.Context(), request(ann, "a{b}", driver.Exclusive))
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), l))
}

func renewalsOnAllMasters(t *testing.T, c *testredis.Cluster, rdb *redis.ClusterClient) {
	s := newStore(t, rdb, &Options{Kind: KindFencedLock})
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
	_, list := automatic(t, c)
	done := waitFor(t, c, b, request(bob, "moving", driver.Exclusive), list)
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
		all, err := to.Client(t).Do(context.WithoutCancel(t.Context()), "PUBSUB", list).StringSlice()
		return list == "CHANNELS" || err == nil && strings.Contains(strings.Join(all, " "), "{moving}")
	}, 20*time.Second, 10*time.Millisecond, "the waiter subscribes at the new master")
	require.NoError(t, a.Release(t.Context(), l))
	soon(t, done)
}
