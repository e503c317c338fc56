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
	nodes, _, err := c.Masters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []*Node{c.Serving(0)}, nodes)
	owners, err := c.OwnersAt(t.Context(), c.Serving(0))
	require.NoError(t, err)
	assert.Zero(t, owners)
	require.NoError(t, closeClient(c))
	_, _, err = c.Masters(t.Context(), true)
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
	_, _, err := c.Masters(t.Context(), true)
	require.ErrorIs(t, err, errNoSlots)
	_, _, err = c.Masters(t.Context(), false)
	require.ErrorContains(t, err, "no node of the cluster serves slot 0")

	serve(SlotCount-1, "b:1", "c:1", "b:1", "a:1")
	nodes, _, err := c.Masters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, addrsOf(nodes))

	serve(SlotCount-1, "b:1", "d:1")
	nodes, _, err = c.Masters(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, addrsOf(nodes), "the cluster is not asked")
	nodes, _, err = c.Masters(t.Context(), true)
	require.NoError(t, err)
	assert.Equal(t, []string{"b:1", "d:1"}, addrsOf(nodes))

	serve(SlotCount-2, "b:1", "d:1")
	_, _, err = c.Masters(t.Context(), true)
	require.ErrorContains(t, err, "no node of the cluster serves slot 16383")
}

// The hash says which node serves which slot, however the ranges are cut.
func TestOwnersOfSlots(t *testing.T) {
	t.Parallel()
	var slots []redis.ClusterSlot
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil }})
	defer rdb.Close()
	c := newClient(t, rdb, Options{})
	serve := func(lasts []int, addrs ...string) {
		slots = nil
		start := 0
		for i, last := range append(lasts, SlotCount-1) {
			slots = append(slots, redis.ClusterSlot{Start: start, End: last, Nodes: []redis.ClusterNode{{Addr: addrs[i]}}})
			start = last + 1
		}
	}
	serve([]int{99}, "a:1", "b:1")
	nodes, owners, err := c.Masters(t.Context(), true)
	require.NoError(t, err)
	asked := func() uint64 {
		got, err := c.OwnersAt(t.Context(), nodes[0])
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, owners, asked())
	serve([]int{50, 99, 1000}, "a:1", "a:1", "b:1", "b:1")
	assert.Equal(t, owners, asked(), "the same in other ranges")
	serve([]int{100}, "a:1", "b:1")
	assert.NotEqual(t, owners, asked(), "a slot has moved")
	serve([]int{99}, "b:1", "a:1")
	assert.NotEqual(t, owners, asked(), "all slots have moved")
	serve([]int{99}, "a:1", "c:1")
	assert.NotEqual(t, owners, asked(), "another node")
	_, same, err := c.Masters(t.Context(), false)
	require.NoError(t, err)
	assert.Equal(t, owners, same, "the client goes on with the slots that it knows")
	serve([]int{99}, "a:1", "b:1")
	slots = slots[1:]
	assert.NotEqual(t, owners, asked(), "a slot without a master")
}
