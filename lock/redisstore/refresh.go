package redisstore

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

	"github.com/leasewheel/leasewheel/lock"
)

const (
	refreshTimeout = time.Second            // of one node
	refreshPause   = 100 * time.Millisecond // at least, from one refresh to the next
	suspectPause   = time.Second            // at most, while a node is suspected
	forgetAfter    = time.Minute            // a node that serves no slot
)

// refresh is one reading of the slots.
type refresh struct {
	asked chan struct{} // holds an element if somebody asked for it
	done  chan struct{}
	err   error // set before done is closed
}

func newRefresh() *refresh {
	return &refresh{asked: make(chan struct{}, 1), done: make(chan struct{})}
}

// refreshed returns the refresh that is under way or to come, and sees to it that
// one is.
func (c *cluster) refreshed() *refresh {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refresh == nil {
		c.refresh = newRefresh()
		if c.ctx.Err() == nil {
			c.work.Go(c.refresher)
		} else {
			c.refresh.err = lock.ErrClosed
			close(c.refresh.done)
		}
	}
	select {
	case c.refresh.asked <- struct{}{}:
	default:
	}
	return c.refresh
}

// refresher refreshes while somebody asks for it, or a node is suspected: it may be
// long until its replica has taken over, and nothing else may tell of that before
// the next renewals fail.
func (c *cluster) refresher() {
	for {
		err := c.read()
		next := c.finish(err)
		suspects := c.suspects()
		pause(c.ctx, refreshPause)
		if suspects {
			select {
			case <-next.asked:
			case <-time.After(suspectPause):
			case <-c.ctx.Done():
			}
		}
		if !c.goesOn(next, suspects) {
			return
		}
	}
}

// finish tells those who wait for the refresh, and returns the one that later ones
// wait for.
func (c *cluster) finish(err error) *refresh {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh.err = err
	close(c.refresh.done)
	c.refresh = newRefresh()
	return c.refresh
}

// goesOn reports whether the next refresh is to be made; if not the refresher ends.
func (c *cluster) goesOn(next *refresh, suspects bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil:
		next.err = lock.ErrClosed
		close(next.done)
		return false
	case !suspects && len(next.asked) == 0:
		c.refresh = nil
		return false
	}
	return true
}

// read asks one node after the other, suspects last, until one tells the slots.
func (c *cluster) read() error {
	if c.given != nil {
		ctx, cancel := context.WithTimeout(c.ctx, refreshTimeout)
		defer cancel()
		slots, err := c.given(ctx)
		if err != nil {
			return fmt.Errorf("the slots of the cluster: %w", err)
		}
		return c.adopt(slots, "")
	}
	err := errors.New("the cluster client has no address")
	for _, n := range c.candidates() {
		var slots []redis.ClusterSlot
		if slots, err = c.ask(n); err == nil {
			err = c.adopt(slots, n.addr)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("no node tells the slots of the cluster: %w", err)
}

// candidates returns all nodes in random order, but those that serve no slot behind
// the others, and the suspects last.
func (c *cluster) candidates() []*node {
	for _, addr := range c.seeds {
		c.node(addr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*node, 0, len(c.nodes))
	for _, n := range c.nodes {
		list = append(list, n)
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

func rank(n *node) int {
	switch {
	case n.suspect.Load():
		return 2
	case !n.gone.IsZero():
		return 1
	}
	return 0
}

// ask asks a node for the slots.
func (c *cluster) ask(n *node) ([]redis.ClusterSlot, error) {
	ctx, cancel := context.WithTimeout(c.ctx, refreshTimeout)
	defer cancel()
	slots, err := n.rdb.ClusterSlots(ctx).Result() //nolint:staticcheck // what replaces it needs Redis 7
	switch {
	case err != nil:
		n.suspect.Store(doubtful(err))
		return nil, err
	case len(slots) == 0:
		return nil, fmt.Errorf("%s knows of no slot", n.addr)
	}
	n.suspect.Store(false)
	return slots, nil
}

// adopt takes over what a node told, or the user's function. That no slot is served is
// not believed: the nodes that are known would be forgotten for it.
func (c *cluster) adopt(slots []redis.ClusterSlot, teller string) error {
	var masters [slotCount]*node
	serving := make(map[*node]bool)
	for _, part := range slots {
		if len(part.Nodes) == 0 || part.Start < 0 || part.End >= slotCount {
			continue
		}
		addr, ok := seenFrom(teller, part.Nodes[0].Addr) // the master stands first
		if !ok {
			continue
		}
		n := c.node(addr)
		serving[n] = true
		for slot := part.Start; slot <= part.End; slot++ {
			masters[slot] = n
		}
	}
	if len(serving) == 0 {
		return errors.New("the cluster has no slot whose master is known")
	}
	for slot, n := range masters {
		if c.slots[slot].Load() != n {
			c.slots[slot].Store(n)
		}
	}
	c.retire(serving)
	return nil
}

// retire notes which nodes serve, and closes those that have not for long.
func (c *cluster) retire(serving map[*node]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for addr, n := range c.nodes {
		switch {
		case serving[n]:
			n.gone = time.Time{}
		case n.gone.IsZero():
			n.gone = time.Now()
		case time.Since(n.gone) > forgetAfter && !slices.Contains(c.seeds, addr):
			delete(c.nodes, addr)
			_ = n.close() // nobody has used it for longer than a call lasts
		}
	}
}

// suspects reports whether a node that serves is suspected still. An answer of any
// kind clears it.
func (c *cluster) suspects() bool {
	var wg sync.WaitGroup
	var list []*node
	c.mu.Lock()
	for _, n := range c.nodes {
		if n.suspect.Load() && n.gone.IsZero() {
			list = append(list, n)
		}
	}
	c.mu.Unlock()
	for _, n := range list {
		wg.Go(func() { _, _ = c.ask(n) })
	}
	wg.Wait()
	return slices.ContainsFunc(list, func(n *node) bool { return n.suspect.Load() })
}
