// Telling a fail-over from a slot that was moved.

package redisconn

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// moves is what a cluster remembers to tell a fail-over from a slot that was moved.
type moves struct {
	mu       sync.Mutex        // guards all below
	masterOf map[string]string // from the address of each replica to that of its master
	told     [2]*Node          // the masters of the latest move, before and after
}

// noteMove tells that a replica has become the master of a slot of its master. Slots that move
// together are told once, as a notice of either node: renewals of the slot may have been meant for the
// one before.
func (c *cluster) noteMove(before, after *Node) {
	if before == nil || after == nil || before == after {
		return
	}
	c.moves.mu.Lock()
	told, promoted := c.moves.told == [2]*Node{before, after}, c.moves.masterOf[after.Addr()] == before.Addr()
	c.moves.told = [2]*Node{before, after}
	c.moves.mu.Unlock()
	if told || !promoted {
		return
	}
	before.Leave()
	detail := "was a replica of " + before.Addr() + " and is the master now"
	after.Tell(redisnode.Notice{Node: before.ID(), Detail: detail})
	after.Tell(redisnode.Notice{Node: after.ID(), Detail: detail, Verify: true})
}

// noteReplicas remembers the replicas of each master, and ends the notice of a move.
func (c *cluster) noteReplicas(source string, slots []redis.ClusterSlot) {
	masterOf := make(map[string]string)
	for _, r := range slots {
		if len(r.Nodes) == 0 {
			continue
		}
		master, ok := resolveAddr(source, r.Nodes[0].Addr)
		for _, replica := range r.Nodes[1:] {
			if addr, known := resolveAddr(source, replica.Addr); ok && known {
				masterOf[addr] = master
			}
		}
	}
	c.moves.mu.Lock()
	defer c.moves.mu.Unlock()
	c.moves.masterOf, c.moves.told = masterOf, [2]*Node{}
}
