package redisconn

import (
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
)

// moves is what a cluster remembers to tell a fail-over from a slot that was moved.
type moves struct {
	mu       sync.Mutex        // guards all below
	masterOf map[string]string // from the address of each replica to that of its master
	told     [2]*Node          // the masters of the latest notice, before and after
}

// noteMove tells that a slot has another master. Slots that move together are told once, as a
// notice of either node: renewals of the slot may have been meant for the one before.
func (c *cluster) noteMove(slot int, before, after *Node) {
	if before == nil || after == nil || before == after {
		return
	}
	c.moves.mu.Lock()
	told, promoted := c.moves.told == [2]*Node{before, after}, c.moves.masterOf[after.addr] == before.addr
	c.moves.told = [2]*Node{before, after}
	c.moves.mu.Unlock()
	if told {
		return
	}
	what, detail := Moved, fmt.Sprintf("serves slot %d and perhaps others, which %s has served", slot, before.addr)
	if promoted {
		what, detail = ServerChanged, "was a replica of "+before.addr+" and is the master now"
	}
	notices := &after.connector.handshaker.notices
	notices.tellAs(before.id, what, 0, detail)
	notices.tellAs(after.id, what, 0, detail)
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
