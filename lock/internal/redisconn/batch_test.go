package redisconn

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// A batch that hangs does not keep the cluster from looking for another master.
func TestANodeIsSuspectedDuringABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addr = "127.0.0.1:1"
		hang := make(chan struct{})
		w := &testredis.Wire{Answer: func([]string) string { <-hang; return "" }}
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
		c, err := New(rdb, Options{Timeout: long, PoolSize: 1})
		require.NoError(t, err)
		require.NoError(t, c.cluster.readSlots())
		failed := make(chan error, 1)
		go func() { failed <- sendBatch(t.Context(), c, "k", 1) }()
		time.Sleep(suspectAfter - 1)
		assert.False(t, c.Serving(0).suspect.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.True(t, c.Serving(0).suspect.Load())
		require.ErrorIs(t, <-failed, driver.NoAnswerError(long))
		close(hang)
		require.NoError(t, closeClient(c))
		require.NoError(t, rdb.Close())
		w.Wait()
	})
}

// Some servers repeat a part of a command in an error.
func TestErrorsOfReplicasHideThePassword(t *testing.T) {
	for _, refused := range []string{"wait", "eval"} {
		w := &testredis.Wire{Answer: func(command []string) string {
			if strings.EqualFold(command[0], refused) {
				return "-ERR not with hunter2\r\n"
			}
			return ":1\r\n"
		}}
		c := newClient(t, w.Client(t, redis.Options{Password: "hunter2"}), Options{Acks: true})
		key := "k"
		var b Batch
		args := b.Add(echo, 4)
		args[2], args[3] = 1, &key
		b.Acknowledge([]*string{&key}, 1, time.Second)
		require.NoError(t, c.Send(t.Context(), c.Serving(0), &b))
		_, err := b.Replicas(func(err error) error { return c.Explain(t.Context(), err) })
		require.EqualError(t, err, "ERR not with (secret)", refused)
	}
}
