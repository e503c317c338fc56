package redisconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestResolveAddr(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, addr, want string }{
		{"10.0.0.1:6379", "10.0.0.2:7000", "10.0.0.2:7000"},
		{"10.0.0.1:6379", ":7000", "10.0.0.1:7000"},
		{"10.0.0.1:6379", "?:7000", "10.0.0.1:7000"},
		{"10.0.0.1:6379", "127.0.0.1:7000", "10.0.0.1:7000"},
		{"127.0.0.1:6379", "127.0.0.1:7000", "127.0.0.1:7000"},
		{"localhost:6379", "127.0.0.1:7000", "127.0.0.1:7000"},
		{"10.0.0.1:6380", "10.0.0.2:0", "10.0.0.2:6380"},
		{"[::2]:6379", "::3:7000", "[::3]:7000"},
		{"[::2]:6379", "[::3]:7000", "[::3]:7000"},
		{"", "node-1.example:7000", "node-1.example:7000"},
	} {
		got, ok := resolveAddr(c.source, c.addr)
		assert.True(t, ok)
		assert.Equal(t, c.want, got, "%s reported by %s", c.addr, c.source)
	}
	for _, addr := range []string{"", "no port", ":7000"} {
		_, ok := resolveAddr("", addr)
		assert.False(t, ok, addr)
	}
}

func TestClusterRejectsSlotsWithoutMasters(t *testing.T) {
	t.Parallel()
	addr := shared.Server(t).Addr()
	all := []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}
	for name, none := range map[string][]redis.ClusterSlot{
		"no slots": nil, "no nodes": {{End: SlotCount - 1}}, "no address": {{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: ":1"}}}},
	} {
		var slots atomic.Pointer[[]redis.ClusterSlot]
		slots.Store(&all)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return *slots.Load(), nil
		}})
		client := newClient(t, rdb, Options{})
		c := client.cluster
		require.NoError(t, runEcho(t.Context(), client, "k"))
		slots.Store(&none)
		require.ErrorContains(t, c.readSlots(), "no slot of the cluster has a known master", name)
		require.NoError(t, sendBatch(t.Context(), client, "k", 1), name)
		c.mu.Lock()
		assert.True(t, c.nodes[addr].idleSince.IsZero(), name)
		c.mu.Unlock()
		require.NoError(t, rdb.Close())
	}
}

func TestClusterKeepsANodeThatServesAgain(t *testing.T) {
	t.Parallel()
	returning := shared.Server(t).Addr()
	w := &testredis.Wire{Answer: func([]string) string { return "-MOVED 1 " + returning + "\r\n" }}
	other := w.Client(t, redis.Options{}).Options().Addr
	var master atomic.Pointer[string]
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
	}})
	defer rdb.Close()
	client := newClient(t, rdb, Options{})
	c := client.cluster
	for _, m := range []*string{&returning, &other} {
		master.Store(m)
		require.NoError(t, c.readSlots())
	}
	n := c.node(returning, false)
	c.mu.Lock()
	require.False(t, n.idleSince.IsZero())
	n.idleSince = time.Now().Add(-2 * forgetAfter)
	c.mu.Unlock()

	require.NoError(t, runEcho(t.Context(), client, "k")) // redirected to n
	require.NoError(t, c.readSlots())
	require.NoError(t, client.Do(t.Context(), n, NewCommand("ping")), "n is not closed")
	require.NoError(t, runEcho(t.Context(), client, "k"))
}

func TestACancelledCallDoesNotSuspectTheNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const addr = "127.0.0.1:1"
		hang := make(chan struct{})
		var hangs atomic.Bool
		w := &testredis.Wire{Answer: func([]string) string {
			if hangs.Load() {
				<-hang
			}
			return "+OK\r\n"
		}}
		dial := func(context.Context, string, string) (net.Conn, error) {
			conn, server := net.Pipe()
			w.Serve(server)
			return conn, nil
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Dialer: dial, Protocol: 2,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
		})
		client, err := New(rdb, Options{Timeout: long, PoolSize: 1})
		require.NoError(t, err)
		c := client.cluster
		require.NoError(t, runEcho(t.Context(), client, "first"))
		hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			failed <- runEcho(ctx, client, "k") // a direct call
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		assert.False(t, c.node(addr, false).suspect.Load())
		close(hang)
		require.NoError(t, closeClient(client))
		require.NoError(t, rdb.Close())
		w.Wait()
	})
}

func TestAnErrorReplyClearsSuspicion(t *testing.T) {
	t.Parallel()
	addr := shared.Server(t).Addr()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	defer rdb.Close()
	client := newClient(t, rdb, Options{})
	c := client.cluster
	require.NoError(t, runEcho(t.Context(), client, "k"))
	c.suspect(c.node(addr, false))
	idle := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.refreshing
	}
	require.Eventually(t, idle, soon, time.Millisecond)
	assert.False(t, c.node(addr, false).suspect.Load())
}
