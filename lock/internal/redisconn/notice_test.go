package redisconn

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A replica that becomes the master of the slots of its own master has taken over. Any other new
// master has slots that were moved. Slots that move together are told once.
func TestAFailOverIsToldFromAMove(t *testing.T) {
	c := newCluster(&redis.ClusterOptions{}, Options{PoolSize: 1}, newCalls())
	defer func() { require.NoError(t, c.close()) }()
	var told []string
	f := NoticeFunc(func(n Notice, _ int, _ time.Duration, detail string) {
		told = append(told, map[Notice]string{ServerChanged: "changed ", Moved: "moved "}[n]+detail)
	})
	c.calls.onNotice.Store(&f)
	serve := func(nodes ...string) {
		r := redis.ClusterSlot{End: SlotCount - 1}
		for _, addr := range nodes {
			r.Nodes = append(r.Nodes, redis.ClusterNode{Addr: addr})
		}
		require.NoError(t, c.applySlots([]redis.ClusterSlot{r}, ""))
	}
	serve("a:1", "b:1")
	assert.Empty(t, told)
	serve("b:1")
	serve("c:1", "b:1")
	serve("c:1", "b:1")
	assert.Equal(t, []string{
		"changed b:1: was a replica of a:1 and is the master now",
		"moved c:1: serves slot 0 and perhaps others, which b:1 has served",
	}, told)
}
