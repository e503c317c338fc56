package redisconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// closeHookConn calls a function when it is closed.
type closeHookConn struct {
	net.Conn
	onClose func()
}

func (c closeHookConn) Close() error {
	c.onClose()
	return c.Conn.Close()
}

// The user's connection may take long to close, and calls to other nodes must not wait for
// it.
func TestClusterClosesConnectionsWithoutItsMutex(t *testing.T) {
	var addrs []string
	for range 2 {
		w := &testredis.Wire{Answer: func([]string) string { return "+OK\r\n" }}
		addrs = append(addrs, w.Client(t, redis.Options{}).Options().Addr)
	}
	var master atomic.Int64
	var c *Client
	var free, held atomic.Int64
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs[1:],
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return closeHookConn{conn, func() {
				if c.cluster.mu.TryLock() {
					c.cluster.mu.Unlock()
					free.Add(1)
				} else {
					held.Add(1)
				}
			}}, err
		},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addrs[master.Load()]}}}}, nil
		},
	})
	defer rdb.Close()
	c = newClient(t, rdb, Options{})
	require.NoError(t, runEcho(t.Context(), c, "k"))
	first := c.Serving(0)
	master.Store(1)
	require.NoError(t, c.cluster.readSlots())
	require.NoError(t, runEcho(t.Context(), c, "k"))
	assert.NotSame(t, first, c.Serving(0))

	c.cluster.mu.Lock()
	first.idleSince = time.Now().Add(-2 * forgetAfter)
	c.cluster.mu.Unlock()
	require.NoError(t, c.cluster.readSlots())
	assert.Positive(t, free.Load(), "the node that has served no slot for a minute is closed")
	closed := free.Load()
	require.Eventually(t, func() bool {
		c.cluster.mu.Lock()
		defer c.cluster.mu.Unlock()
		return !c.cluster.refreshing // otherwise the refresher may hold mu just then
	}, soon, time.Millisecond)
	require.NoError(t, closeClient(c))
	assert.Greater(t, free.Load(), closed)
	assert.Zero(t, held.Load())
}

// Calls to other nodes must not wait for a function of the user.
func TestClusterInstrumentsANodeWithoutItsMutex(t *testing.T) {
	w := &testredis.Wire{Answer: func([]string) string { return "+OK\r\n" }}
	addr := w.Client(t, redis.Options{}).Options().Addr
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	defer rdb.Close()
	var c *Client
	var called atomic.Int64
	c = newClient(t, rdb, Options{Instrument: func(*redis.Client) error {
		called.Add(1)
		if assert.True(t, c.cluster.mu.TryLock(), "mu is free") {
			c.cluster.mu.Unlock()
		}
		return nil
	}})
	require.NoError(t, runEcho(t.Context(), c, "k"))
	assert.Positive(t, called.Load())
	require.NoError(t, closeClient(c))
}

// A ClusterSlots function that ignores its ctx keeps neither a call nor Close waiting.
func TestAClusterSlotsFunctionMayHang(t *testing.T) {
	asked, end := make(chan struct{}, 1), make(chan struct{})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:1"},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			asked <- struct{}{}
			<-end
			return nil, nil
		},
	})
	defer rdb.Close()
	c := newClient(t, rdb, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	require.ErrorIs(t, runEcho(ctx, c, "k"), context.Canceled)
	c.Cancel()
	require.NoError(t, c.Close())
	close(end)
	c.Wait()
}
