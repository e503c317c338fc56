// This file is about the refreshes, which read the slots of a cluster again.

package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	refreshTimeout = time.Second            // for one node
	minRefresh     = 100 * time.Millisecond // the minimum time between two refreshes
	suspectRefresh = time.Second            // the maximum time while a node is suspected
	forgetAfter    = time.Minute            // for a node that serves no slot
)

// refresh is one reading of the slots.
type refresh struct {
	requested chan struct{} // holds an element if there was a request since the reading began
	reading   bool          // guarded by cluster.mu
	done      chan struct{}
	err       error // set before done is closed
}

func newRefresh() *refresh {
	return &refresh{requested: make(chan struct{}, 1), done: make(chan struct{})}
}

// requestRefresh returns the current refresh, or the next one if none is in progress. It
// starts the refresher if there is none. If the current refresh has begun to read the slots,
// it may miss what the caller has seen, so another refresh follows it. begun reports whether
// that is so.
func (c *cluster) requestRefresh() (r *refresh, begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refresh == nil {
		c.refresh = newRefresh()
		if c.calls.ctx.Err() == nil {
			c.work.Go(c.refresher)
		} else {
			c.refresh.err = ErrClosed
			close(c.refresh.done)
		}
	}
	c.refresh.request()
	return c.refresh, c.refresh.reading
}

// request notes a request. The refresher is woken if it waits for one.
func (r *refresh) request() {
	select {
	case r.requested <- struct{}{}:
	default:
	}
}

// readAgain waits for a refresh that begins to read the slots after the call.
func (c *cluster) readAgain(ctx context.Context) error {
	r, begun := c.requestRefresh()
	err := c.awaitRefresh(ctx, r)
	if begun && ctx.Err() == nil {
		r, _ = c.requestRefresh() // if this one has begun, it did so after the first ended
		err = c.awaitRefresh(ctx, r)
	}
	return err
}

// awaitRefresh waits for the end of a refresh and returns its error.
func (c *cluster) awaitRefresh(ctx context.Context, r *refresh) error {
	select {
	case <-r.done:
		return r.err
	case <-c.calls.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refresher reads the slots as long as refreshes are requested or a node is suspected. The
// replica of a failed node may need a while to take over. Without further refreshes, the
// next renewals would have to fail before the client looks for it.
func (c *cluster) refresher() {
	for {
		c.beginRefresh()
		err := c.readSlots()
		next := c.finishRefresh(err)
		suspected := c.probeSuspects()
		pause(c.calls.ctx, minRefresh)
		if suspected {
			select {
			case <-next.requested:
			case <-time.After(suspectRefresh):
			case <-c.calls.ctx.Done():
			}
		}
		if !c.continueRefresh(next, suspected) {
			return
		}
	}
}

// beginRefresh begins the current refresh, which answers the requests so far.
func (c *cluster) beginRefresh() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh.reading = true
	select {
	case <-c.refresh.requested:
	default:
	}
}

// finishRefresh ends the current refresh and returns the next one. Requests that came during
// the reading are for the next one.
func (c *cluster) finishRefresh(err error) *refresh {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.refresh
	c.refresh = newRefresh()
	if len(last.requested) > 0 {
		c.refresh.request()
	}
	last.err = err
	close(last.done)
	return c.refresh
}

// continueRefresh reports whether the refresher makes the next refresh. Otherwise it ends.
func (c *cluster) continueRefresh(next *refresh, suspected bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.calls.ctx.Err() != nil:
		next.err = ErrClosed
		close(next.done)
		return false
	case !suspected && len(next.requested) == 0:
		c.refresh = nil
		return false
	}
	return true
}

// readSlots reads the slots from the user's ClusterSlots function. If there is none, it asks
// one node after another until a node returns them.
func (c *cluster) readSlots() error {
	if c.clusterSlots != nil {
		ctx, cancel := context.WithTimeout(c.calls.ctx, refreshTimeout)
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
		if slots, err = c.readSlotsFrom(c.calls.ctx, n); err == nil {
			err = c.applySlots(slots, n.addr)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("no node returned the slots of the cluster: %w", err)
}

// askUser calls the user's ClusterSlots function, and returns when ctx ends.
func (c *cluster) askUser(ctx context.Context) ([]redis.ClusterSlot, error) {
	return outside(ctx, c.calls, func() ([]redis.ClusterSlot, error) { return c.clusterSlots(ctx) })
}

// candidates returns all nodes: first those that serve slots, then those that do not, then
// the suspected ones. Within each group the order is random.
func (c *cluster) candidates() []*Node {
	for _, addr := range c.seeds {
		c.node(addr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		list = append(list, n)
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.SortStableFunc(list, func(a, b *Node) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

func rank(n *Node) int {
	switch {
	case n.suspect.Load():
		return 2
	case !n.idleSince.IsZero():
		return 1
	}
	return 0
}

// readSlotsFrom reads the slots from a node. The node is suspected afterwards if it did not
// answer, or replied that it does not serve. If it returns slots, it is not.
func (c *cluster) readSlotsFrom(ctx context.Context, n *Node) (slots []redis.ClusterSlot, err error) {
	err = n.do(ctx, time.Now().Add(refreshTimeout), n.batches, func(ctx context.Context) (err error) {
		slots, err = n.batches.ClusterSlots(ctx).Result() //nolint:staticcheck // its replacement needs Redis 7
		return err
	})
	switch {
	case errors.Is(err, redis.Nil): // go-redis does not parse a null address
		return nil, fmt.Errorf("%s returned no addresses: cluster-preferred-endpoint-type must not be unknown-endpoint", n.addr)
	case err != nil:
		n.suspect.Store(mayHaveMoved(err))
		return nil, err
	case len(slots) == 0:
		return nil, fmt.Errorf("%s returned no slots", n.addr)
	}
	n.suspect.Store(false)
	return slots, nil
}

// applySlots makes the slots that a node, or the user's function, has returned the current
// ones. It rejects slots without any known master, because otherwise the cluster would
// forget all nodes. source is the address of the node, or empty.
func (c *cluster) applySlots(slots []redis.ClusterSlot, source string) error {
	var masters [SlotCount]*Node
	serving := make(map[*Node]bool)
	eachMaster(slots, source, func(r redis.ClusterSlot, addr string) {
		n := c.node(addr)
		serving[n] = true
		for slot := r.Start; slot <= r.End; slot++ {
			masters[slot] = n
		}
	})
	if len(serving) == 0 {
		return errors.New("no slot of the cluster has a known master")
	}
	var from, to *Node // the latest move that was noted: neighbouring slots move together
	for slot, n := range masters {
		before := c.slots[slot].Load()
		if before == n {
			continue
		}
		c.slots[slot].Store(n)
		if before != from || n != to {
			from, to = before, n
			c.noteMove(before, n)
		}
	}
	c.noteReplicas(source, slots)
	c.retire(serving)
	return nil
}

// eachMaster calls f with each range of slots that has a known master, and the address of
// that. source is the node that has returned the slots.
func eachMaster(slots []redis.ClusterSlot, source string, f func(r redis.ClusterSlot, addr string)) {
	for _, r := range slots {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= SlotCount {
			continue
		}
		if addr, ok := resolveAddr(source, r.Nodes[0].Addr); ok { // the first node is the master
			f(r, addr)
		}
	}
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
		wg.Go(func() { _, _ = c.readSlotsFrom(c.calls.ctx, n) })
	}
	wg.Wait()
	return slices.ContainsFunc(list, func(n *Node) bool { return n.suspect.Load() })
}
