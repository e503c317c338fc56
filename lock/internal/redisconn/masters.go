package redisconn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// AllMasters returns the nodes that serve the slots of a cluster, in the order of their
// addresses, or the node of a client for one server. If fresh is set, it asks the cluster
// first. It returns an error if a slot has no known node, because whoever visits all nodes
// would miss the keys of that slot.
func (c *Client) AllMasters(ctx context.Context, fresh bool) ([]*Node, error) {
	if err := c.calls.begin(ctx); err != nil {
		return nil, err
	}
	defer c.calls.running.Done()
	if c.cluster == nil {
		return []*Node{c.node}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, NoAnswerError(c.timeout))
	defer cancel()
	nodes, err := c.cluster.masters(ctx, fresh)
	if err != nil {
		return nil, c.calls.reason(ctx, err)
	}
	return nodes, nil
}

// masters is AllMasters for a cluster.
func (c *cluster) masters(ctx context.Context, fresh bool) ([]*Node, error) {
	if fresh {
		if err := c.readAgain(ctx); err != nil {
			return nil, err
		}
	}
	var nodes []*Node
	var last *Node // most slots have the node of the slot before
	for slot := range c.slots {
		n := c.slots[slot].Load()
		switch {
		case n == nil:
			return nil, fmt.Errorf("no node of the cluster serves slot %d", slot)
		case n != last && !slices.Contains(nodes, n):
			nodes = append(nodes, n)
		}
		last = n
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, nil
}
