package redisconn

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func addrsOf(nodes []*Node) []string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

func TestMastersOfOneServer(t *testing.T) {
	t.Parallel()
	c := newClient(t, shared.Server(t).Client(t), Options{})
	nodes, err := c.AllMasters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []*Node{c.SingleNode()}, nodes)
	require.NoError(t, closeClient(c))
	_, err = c.AllMasters(t.Context(), true)
	require.ErrorIs(t, err, ErrClosed)
}

func TestMastersOfACluster(t *testing.T) {
	t.Parallel()
	var slots atomic.Pointer[[]redis.ClusterSlot]
	errNoSlots := errors.New("no slots today")
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		if s := slots.Load(); s != nil {
			return *s, nil
		}
		return nil, errNoSlots
	}})
	defer rdb.Close()
	serve := func(end int, addrs ...string) {
		var all []redis.ClusterSlot
		for i, addr := range addrs {
			last := end
			if i < len(addrs)-1 {
				last = i
			}
			all = append(all, redis.ClusterSlot{Start: i, End: last, Nodes: []redis.ClusterNode{{Addr: addr}}})
		}
		slots.Store(&all)
	}
	c := newClient(t, rdb, Options{})
	_, err := c.AllMasters(t.Context(), true)
	require.ErrorIs(t, err, errNoSlots)
	_, err = c.AllMasters(t.Context(), false)
	require.ErrorContains(t, err, "no node of the cluster serves slot 0")

	serve(SlotCount-1, "b:1", "c:1", "b:1", "a:1")
	nodes, err := c.AllMasters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, addrsOf(nodes))

	serve(SlotCount-1, "b:1", "d:1")
	nodes, err = c.AllMasters(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, addrsOf(nodes), "the cluster is not asked")
	nodes, err = c.AllMasters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []string{"b:1", "d:1"}, addrsOf(nodes))

	serve(SlotCount-2, "b:1", "d:1")
	_, err = c.AllMasters(t.Context(), true)
	require.ErrorContains(t, err, "no node of the cluster serves slot 16383")
}
