package redisconn

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

// recordChanges returns the changes of servers that a client reports from now on.
func recordChanges(cs *redisnode.Calls) *[]string {
	var told []string
	cs.ReportEvents(func(e renewal.Event) {
		if e.Kind == renewal.EventServerChanged {
			told = append(told, fmt.Sprintf("%d changed %s", e.Lane, e.Detail))
		}
	})
	return &told
}

// A replica that becomes the master of the slots of its own master has taken over. Any other new
// master has slots that were moved. Slots that change together are told once, for both nodes.
func TestAFailOverIsToldFromAMove(t *testing.T) {
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, redisnode.NewCalls())
	defer func() {
		c.calls.Cancel()
		require.NoError(t, c.close())
	}()
	told := recordChanges(c.calls)
	serve := func(nodes ...string) {
		r := redis.ClusterSlot{End: SlotCount - 1}
		for _, addr := range nodes {
			r.Nodes = append(r.Nodes, redis.ClusterNode{Addr: addr})
		}
		require.NoError(t, c.applySlots([]redis.ClusterSlot{r}, ""))
	}
	serve("a:1", "b:1")
	assert.Empty(t, *told)
	serve("b:1")
	serve("c:1", "b:1")
	serve("c:1", "b:1")
	assert.Equal(t, []string{
		"1 changed b:1: was a replica of a:1 and is the master now",
		"2 changed b:1: was a replica of a:1 and is the master now",
	}, *told)
}

// A master that was demoted redirects calls. That is told before the slots are read again, because
// the new master answers the call before that.
func TestAFailOverIsToldByARedirection(t *testing.T) {
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, redisnode.NewCalls())
	defer func() {
		c.calls.Cancel()
		require.NoError(t, c.close())
	}()
	told := recordChanges(c.calls)
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "a:1"}, {Addr: "b:1"}}}}, ""))
	before := c.slots.Load()[0]
	c.next = new(refresh) // otherwise a refresher would ask for the slots
	c.follow(before, serverError("ASK 7 b:1"), 7)
	assert.Empty(t, *told, "ASK is about a single call")
	for slot := range uint16(3) {
		c.follow(before, serverError("MOVED 7 b:1"), slot)
	}
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "b:1"}, {Addr: "a:1"}}}}, ""))
	c.follow(before, serverError("MOVED 7 b:1"), 0) // a late answer of a:1
	assert.Equal(t, []string{
		"1 changed b:1: was a replica of a:1 and is the master now",
		"2 changed b:1: was a replica of a:1 and is the master now",
	}, *told)
}
