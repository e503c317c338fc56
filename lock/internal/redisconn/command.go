// Commands that are not scripts, and the masters that they are sent to.

package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Command is a command that is not a script. The Err that Do sets is without secrets.
type Command = redisnode.Command

// NewCommand returns a command with the given words.
func NewCommand(args ...any) *Command { return &Command{Args: args} }

// Do sends commands to a node, as [redisnode.Node.Do] does. It follows no redirections.
func (c *Client) Do(ctx context.Context, n *Node, commands ...*Command) error {
	if c == nil {
		return ErrZeroStore
	}
	if err := c.Begin(ctx); err != nil {
		return err
	}
	defer c.End()
	if err := n.Do(ctx, commands...); err != nil {
		return c.Explain(ctx, err)
	}
	for _, command := range commands {
		if command.Err == nil {
			c.noteAnswer()
			continue
		}
		command.Err = c.Explain(ctx, command.Err)
		command.Refused = command.Refused && !errors.Is(command.Err, errNoMaster)
	}
	return nil
}

// Masters returns the nodes that serve the slots of a cluster, in the order of their addresses, or
// the node of a client for one server. owners is a hash of which node serves which slot, and 0 for one
// server. If fresh is set, Masters asks the cluster first. If a slot has no known node, the error names it, and
// nodes are those of the others: a visit of them would miss the keys of that slot.
func (c *Client) Masters(ctx context.Context, fresh bool) (nodes []*Node, owners uint64, err error) {
	if c == nil {
		return nil, 0, ErrZeroStore
	}
	if err := c.Begin(ctx); err != nil {
		return nil, 0, err
	}
	defer c.End()
	if c.cluster == nil {
		return []*Node{c.node}, 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, driver.NoAnswerError(c.timeout))
	defer cancel()
	if fresh {
		_, next := c.cluster.requestRefresh()
		err = c.cluster.await(ctx, next)
	}
	if err == nil {
		nodes, owners, err = c.cluster.masters()
		slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.Addr(), b.Addr()) })
	}
	if err != nil {
		err = c.Explain(ctx, err)
	}
	return nodes, owners, err
}

// masters returns the nodes that serve slots, and the hash of Masters. The
// error names a slot without a node.
func (c *cluster) masters() (nodes []*Node, owners uint64, err error) {
	var addrs [SlotCount]string
	var last *Node // most slots have the node of the slot before
	for slot, n := range c.slots.Load() {
		if n == nil {
			if err == nil {
				err = fmt.Errorf("no node of the cluster serves slot %d", slot)
			}
			continue
		}
		if n != last && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
		addrs[slot], last = n.Addr(), n
	}
	return nodes, hashOwners(&addrs), err
}

// OwnersAt asks a node which master serves which slot, and returns the hash of Masters for
// that, after at most Options.Timeout. The node itself is the first to know which slots it has
// lost. The ClusterSlots function of the user is asked instead, if there is one. The client
// goes on with the slots that it knows. For one server OwnersAt returns 0.
func (c *Client) OwnersAt(ctx context.Context, n *Node) (owners uint64, err error) {
	if c.cluster == nil {
		return 0, nil
	}
	if err := c.Begin(ctx); err != nil {
		return 0, err
	}
	defer c.End()
	bounded, cancel := context.WithTimeoutCause(ctx, c.timeout, driver.NoAnswerError(c.timeout))
	defer cancel()
	var slots []redis.ClusterSlot
	var source string
	if c.cluster.clusterSlots != nil {
		slots, err = c.cluster.askUser(bounded)
	} else {
		slots, err = c.cluster.readSlotsFrom(bounded, n)
		source = n.Addr()
	}
	if err != nil {
		return 0, c.Explain(ctx, err)
	}
	return hashOwners(ownersOf(slots, source)), nil
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
