package redisconn

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/redis/go-redis/v9"
)

// AllMasters returns the nodes that serve the slots of a cluster, in the order of their
// addresses, or the node of a client for one server. owners is a hash of which node serves which
// slot, and 0 for one server. If fresh is set, AllMasters asks the cluster first. It returns an
// error if a slot has no known node, because a visit of all nodes would miss the keys of
// that slot.
func (c *Client) AllMasters(ctx context.Context, fresh bool) (nodes []*Node, owners uint64, err error) {
	if err := c.calls.begin(ctx); err != nil {
		return nil, 0, err
	}
	defer c.calls.running.Done()
	if c.cluster == nil {
		return []*Node{c.node}, 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, NoAnswerError(c.timeout))
	defer cancel()
	nodes, owners, err = c.cluster.masters(ctx, fresh)
	if err != nil {
		return nil, 0, c.calls.reason(ctx, c.secrets.clean(err))
	}
	return nodes, owners, nil
}

// masters is AllMasters for a cluster.
func (c *cluster) masters(ctx context.Context, fresh bool) (nodes []*Node, owners uint64, err error) {
	if fresh {
		if err := c.readAgain(ctx); err != nil {
			return nil, 0, err
		}
	}
	var addrs [SlotCount]string
	var last *Node // most slots have the node of the slot before
	for slot := range c.slots {
		n := c.slots[slot].Load()
		switch {
		case n == nil:
			return nil, 0, fmt.Errorf("no node of the cluster serves slot %d", slot)
		case n != last && !slices.Contains(nodes, n):
			nodes = append(nodes, n)
		}
		addrs[slot], last = n.addr, n
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, hashOwners(&addrs), nil
}

// OwnersAt asks a node which master serves which slot, and returns the hash of AllMasters for
// that, after at most Options.Timeout. The node itself is the first to know which slots it has
// lost. The ClusterSlots function of the user is asked instead, if there is one. The client
// goes on with the slots that it knows. For one server OwnersAt returns 0.
func (c *Client) OwnersAt(ctx context.Context, n *Node) (owners uint64, err error) {
	if c.cluster == nil {
		return 0, nil
	}
	return await(ctx, c.calls, c.timeout, func(ctx context.Context) (uint64, error) {
		slots, source, err := c.cluster.slotsAt(ctx, n)
		if err != nil {
			return 0, c.secrets.clean(err)
		}
		var addrs [SlotCount]string
		eachMaster(slots, source, func(r redis.ClusterSlot, addr string) {
			for slot := r.Start; slot <= r.End; slot++ {
				addrs[slot] = addr
			}
		})
		return hashOwners(&addrs), nil
	})
}

// slotsAt returns the slots that a node names, and its address, or those of the user's function.
func (c *cluster) slotsAt(ctx context.Context, n *Node) (slots []redis.ClusterSlot, source string, err error) {
	if c.clusterSlots != nil {
		slots, err = c.clusterSlots(ctx)
		return slots, "", err
	}
	slots, err = c.readSlotsFrom(n)
	return slots, n.addr, err
}

// hashOwners returns a hash of the addresses of the masters of all slots.
func hashOwners(addrs *[SlotCount]string) uint64 {
	h := fnv.New64a()
	for slot, addr := range addrs {
		if slot == 0 || addr != addrs[slot-1] {
			_, _ = fmt.Fprintf(h, "%d %s\n", slot, addr) // never fails
		}
	}
	return h.Sum64()
}
