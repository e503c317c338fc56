package redisconn

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// recordNotices returns the texts of the notices of a client from now on.
func recordNotices(cs *redisnode.Calls) *[]string {
	var told []string
	cs.OnNotice(func(n redisnode.Notice) {
		told = append(told, fmt.Sprintf("%d changed %s", n.Node, n.Detail))
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
	told := recordNotices(c.calls)
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
	told := recordNotices(c.calls)
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "a:1"}, {Addr: "b:1"}}}}, ""))
	c.next = new(refresh) // otherwise a refresher would ask for the slots
	c.follow(redirection{addr: "b:1", asking: true}, 7)
	assert.Empty(t, *told, "ASK is about a single call")
	for slot := range uint16(3) {
		c.follow(redirection{addr: "b:1"}, slot)
	}
	require.NoError(t, c.applySlots([]redis.ClusterSlot{{End: SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: "b:1"}, {Addr: "a:1"}}}}, ""))
	c.follow(redirection{addr: "b:1"}, 0) // a late answer of a:1
	assert.Equal(t, []string{
		"1 changed b:1: was a replica of a:1 and is the master now",
		"2 changed b:1: was a replica of a:1 and is the master now",
	}, *told)
}
