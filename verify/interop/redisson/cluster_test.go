package redisson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// TestCluster hands locks over on a cluster, where both sides must use SPUBLISH.
func TestCluster(t *testing.T) {
	c := testredis.StartCluster(t, 3, false, logAll...)
	java := startPeer(t, peerOptions{addr: "cluster:" + c.Masters[0].Addr(), fairWait: fairWait})
	p := (&pair{T: t, rdb: c.Client(t), wait: fairWait, java: java}).withClients()
	p.run("each side sees the locks of the other", eachSideExcludesTheOther)
	p.run("hand-over", func(p *pair) { handOvers(p, "cluster", 10) })
	p.run("sharded channels", func(p *pair) {
		h := p.lock("lock", "sharded")
		waiting := p.java.start("a", "lock", "lock", "sharded", "-1")
		p.awaitWaiter("sharded")
		assert.Contains(p, p.channels(c, "SHARDCHANNELS"), "redisson_lock__channel:{sharded}")
		assert.NotContains(p, strings.Join(p.channels(c, "CHANNELS"), " "), "{sharded}")
		p.unlock(h)
		p.java.woken(waiting)
		p.java.do("a", "unlock", "lock", "sharded")
	})
}

// channels returns the channels of all nodes that the command "PUBSUB what" lists.
func (p *pair) channels(c *testredis.Cluster, what string) []string {
	p.Helper()
	var all []string
	for _, s := range c.Masters {
		found, err := s.Client(p).Do(p.Context(), "PUBSUB", what).StringSlice()
		require.NoError(p, err)
		all = append(all, found...)
	}
	return all
}
