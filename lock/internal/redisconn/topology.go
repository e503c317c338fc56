// The refreshes, which read the slots of a cluster again and distinguish fail-overs from slots that were moved.

package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

const (
	refreshTimeout = time.Second            // for one node
	minRefresh     = 100 * time.Millisecond // the minimum time between two refreshes
	suspectRefresh = time.Second            // the maximum time while a node is suspected
	forgetAfter    = time.Minute            // for a node that serves no slot
)

// refresh is one reading of the slots.
type refresh struct {
	done chan struct{}
	err  error // set before done is closed
}

// requestRefresh has the slots read again. It returns the reading in progress, or nil, and the next one,
// which finds all that the caller has seen. It starts the refresher if there is none.
func (c *cluster) requestRefresh() (current, next *refresh) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &refresh{done: make(chan struct{})}
		if !c.refreshing && c.calls.Begin(context.Background()) == nil {
			c.refreshing = true
			go c.refresher()
		}
	}
	return c.current, c.next
}

// await waits for the end of a refresh and returns its error.
func (c *cluster) await(ctx context.Context, r *refresh) error {
	select {
	case <-r.done:
		return r.err
	case <-c.calls.Context().Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refresher reads the slots as long as refreshes are requested. While a node is suspected, it requests further ones itself. The
// replica of a failed node may need a while to take over. Without further refreshes, the
// next renewals would have to fail before the client looks for it.
func (c *cluster) refresher() {
	defer c.calls.End()
	for {
		c.mu.Lock()
		r := c.next
		c.refreshing = r != nil && c.calls.Context().Err() == nil
		if !c.refreshing {
			c.mu.Unlock()
			return
		}
		c.current, c.next = r, nil
		c.mu.Unlock()
		r.err = c.readSlots()
		c.mu.Lock()
		c.current = nil
		c.mu.Unlock()
		close(r.done)
		if c.probeSuspects() {
			c.again.Reset(suspectRefresh)
		}
		_ = basic.Sleep(c.calls.Context(), minRefresh)
	}
}

// readSlots reads the slots from the user's ClusterSlots function. If there is none, it asks
// one node after another until a node returns them.
func (c *cluster) readSlots() error {
	if c.clusterSlots != nil {
		ctx, cancel := context.WithTimeout(c.calls.Context(), refreshTimeout)
		defer cancel()
		slots, err := c.askUser(ctx)
		if err != nil {
			return fmt.Errorf("ClusterSlots function: %w", err)
		}
		return c.applySlots(slots, "")
	}
	err := errors.New("cluster client without addresses")
	for _, n := range c.candidates() {
		var slots []redis.ClusterSlot
		if slots, err = c.readSlotsFrom(c.calls.Context(), n); err == nil {
			err = c.applySlots(slots, n.Addr())
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("no node returned the slots of the cluster: %w", err)
}

// askUser calls the user's ClusterSlots function, and returns when ctx ends.
func (c *cluster) askUser(ctx context.Context) ([]redis.ClusterSlot, error) {
	return redisnode.CallUser(ctx, c.calls, func() ([]redis.ClusterSlot, error) { return c.clusterSlots(ctx) })
}

// candidates returns all nodes: first those that serve slots, then those that do not, then
// the suspected ones. Within each group the order is random.
func (c *cluster) candidates() []*Node {
	for _, addr := range c.seeds {
		c.node(addr, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Collect(maps.Values(c.nodes))
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	rank := func(n *Node) int {
		switch {
		case n.suspect.Load():
			return 2
		case !n.idleSince.IsZero():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b *Node) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// readSlotsFrom reads the slots from a node. The node is suspected afterwards if it did not
// answer, or replied that it does not serve. If it returns slots, it is not.
func (c *cluster) readSlotsFrom(ctx context.Context, n *Node) (slots []redis.ClusterSlot, err error) {
	slots, err = n.Slots(ctx, refreshTimeout)
	switch {
	case errors.Is(err, redis.Nil): // go-redis does not parse a null address
		return nil, fmt.Errorf("%s returned no addresses: cluster-preferred-endpoint-type must not be unknown-endpoint", n.Addr())
	case err != nil:
		n.suspect.Store(mayHaveMoved(err))
		return nil, err
	case len(slots) == 0:
		return nil, fmt.Errorf("%s returned no slots", n.Addr())
	}
	n.suspect.Store(false)
	return slots, nil
}

// applySlots makes the slots that a node, or the user's function, has returned the current
// ones. It rejects slots without any known master, because otherwise the cluster would
// forget all nodes. source is the address of the node, or empty.
func (c *cluster) applySlots(slots []redis.ClusterSlot, source string) error {
	masters, serving := new(slotTable), make(map[*Node]bool)
	owners := ownersOf(slots, source)
	for slot, addr := range owners {
		switch {
		case addr == "":
		case slot > 0 && addr == owners[slot-1]:
			masters[slot] = masters[slot-1]
		default:
			masters[slot] = c.node(addr, false)
			serving[masters[slot]] = true
		}
	}
	if len(serving) == 0 {
		return errors.New("no slot of the cluster has a known master")
	}
	var from, to *Node // the latest move that was noted: neighbouring slots move together
	old := c.slots.Swap(masters)
	for slot, n := range masters {
		before := old[slot]
		if before == n {
			continue
		}
		if before != from || n != to {
			from, to = before, n
			c.noteMove(before, n)
		}
	}
	c.noteReplicas(source, slots)
	c.retire(serving)
	return nil
}

// ownersOf returns the address of the master of each slot, "" if it is not known. source is the node that has returned the slots.
func ownersOf(slots []redis.ClusterSlot, source string) *[SlotCount]string {
	owners := new([SlotCount]string)
	for _, r := range slots {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= SlotCount {
			continue
		}
		if addr, ok := resolveAddr(source, r.Nodes[0].Addr); ok { // the first node is the master
			for slot := r.Start; slot <= r.End; slot++ {
				owners[slot] = addr
			}
		}
	}
	return owners
}

// retire records which nodes serve slots. It closes nodes that have not served any for
// forgetAfter.
func (c *cluster) retire(serving map[*Node]bool) {
	var retired []*Node
	c.mu.Lock()
	for addr, n := range c.nodes {
		switch {
		case serving[n]:
			n.idleSince = time.Time{}
		case n.idleSince.IsZero():
			n.idleSince = time.Now()
		case time.Since(n.idleSince) > forgetAfter && !slices.Contains(c.seeds, addr):
			delete(c.nodes, addr)
			retired = append(retired, n) // no call has used it for longer than a call may last
		}
	}
	c.mu.Unlock()
	_ = closeAll(retired)
}

// probeSuspects asks the suspected nodes that serve slots. It reports whether one of them
// is still suspected afterwards.
func (c *cluster) probeSuspects() bool {
	var wg sync.WaitGroup
	var list []*Node
	c.mu.Lock()
	for _, n := range c.nodes {
		if n.suspect.Load() && n.idleSince.IsZero() {
			list = append(list, n)
		}
	}
	c.mu.Unlock()
	for _, n := range list {
		wg.Go(func() { _, _ = c.readSlotsFrom(c.calls.Context(), n) })
	}
	wg.Wait()
	return slices.ContainsFunc(list, func(n *Node) bool { return n.suspect.Load() })
}

// noteMove reports that a replica has become the master of a slot of its master. Slots that move
// together are reported once, as a notice of either node: renewals of the slot may have been meant for the
// one before.
func (c *cluster) noteMove(before, after *Node) {
	if before == nil || after == nil || before == after {
		return
	}
	c.mu.Lock()
	told, promoted := c.told == [2]*Node{before, after}, c.masterOf[after.Addr()] == before.Addr()
	c.told = [2]*Node{before, after}
	c.mu.Unlock()
	if told || !promoted {
		return
	}
	before.Leave()
	detail := "was a replica of " + before.Addr() + " and is the master now"
	after.Tell(before.ID(), detail, false)
	after.Tell(after.ID(), detail, true)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.masterOf, c.told = masterOf, [2]*Node{}
}
