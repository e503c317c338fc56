package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// keysPerScript bounds the leases that one script renews, because the server executes nothing else
// meanwhile. On a cluster a script renews one lease, because it must not touch two slots.
const keysPerScript = 25

// Lane implements [renewal.Laner]. On a cluster each master is a lane of its own.
func (s *Store) Lane(l driver.Lease) int {
	if s.redis == nil || !s.redis.IsCluster() {
		return 0
	}
	if n := s.redis.Serving(redisconn.SlotOf(s.prefix + l.Key)); n != nil {
		return n.ID()
	}
	return 0 // no node serves the slot
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each master.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	return s.RenewExplained(ctx, batch, out, make([]renewal.Denial, len(batch)))
}

// RenewExplained implements [renewal.Explainer].
func (s *Store) RenewExplained(ctx context.Context, batch []driver.Lease, out []renewal.Outcome, why []renewal.Denial) error {
	if len(batch) == 0 {
		return nil
	}
	c := &renewCall{store: s, batch: batch, out: out, why: why}
	for n, items := range c.byNode(ctx) {
		c.running.Go(func() { c.onNode(ctx, n, items) })
	}
	c.running.Wait()
	c.followMoved(ctx)
	switch {
	case c.err == nil:
		return nil
	case len(batch) == 1:
		return failed("renew", batch[0].Key, c.err)
	}
	return fmt.Errorf("redlock: renew %s and others, %d of %d without an answer: %w", basic.Quote(batch[0].Key), c.unknown, len(batch), c.err)
}

// renewCall is one call of Renew.
type renewCall struct {
	store   *Store
	batch   []driver.Lease
	out     []renewal.Outcome
	why     []renewal.Denial
	running sync.WaitGroup

	mu      sync.Mutex   // guards all fields below
	moved   []*leaseItem // redirected by a node
	unknown int          // leases without an answer
	err     error        // of the first of them
}

// leaseItem holds what the script needs of a lease of the batch.
type leaseItem struct {
	index      int // in the batch
	key, owner string
	ttl        int64 // ms
}

// fail counts n leases without an answer.
func (c *renewCall) fail(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown += n
	if c.err == nil {
		c.err = err
	}
}

// byNode returns the leases by the nodes that serve them. It fails the leases that cannot be sent.
func (c *renewCall) byNode(ctx context.Context) map[*redisconn.Node][]*leaseItem {
	s := c.store
	nodes := make(map[*redisconn.Node][]*leaseItem)
	for i := range c.batch {
		l := &c.batch[i]
		err := s.usable(ctx)
		if err == nil {
			_, err = s.keys(&l.Request)
		}
		if err != nil {
			c.fail(1, err)
			continue
		}
		if l.Token != 0 { // a lease of another store
			c.out[i], c.why[i] = renewal.Lost, renewal.DeniedTaken
			continue
		}
		it := &leaseItem{index: i, key: s.prefix + l.Key, owner: l.Owner, ttl: l.TTL.Milliseconds()}
		n, err := s.redis.Master(ctx, redisconn.SlotOf(it.key))
		if err != nil {
			c.fail(1, rediskit.FromConn(err))
			continue
		}
		nodes[n] = append(nodes[n], it)
	}
	return nodes
}

// onNode renews leases of one node in one round trip. It does not reuse the redisconn.Batch, because a
// request may still be under way after an error.
func (c *renewCall) onNode(ctx context.Context, n *redisconn.Node, items []*leaseItem) {
	limit := keysPerScript
	if c.store.redis.IsCluster() {
		limit = 1
	}
	slices.SortStableFunc(items, func(a, b *leaseItem) int { return int(a.ttl - b.ttl) })
	var batch redisconn.Batch
	batch.Begin(c.store.redis, n, argCount(1)*len(items)) // an upper bound of the arguments
	var scripts [][]*leaseItem
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && to < from+limit && items[to].ttl == items[from].ttl {
			to++
		}
		fill(batch.Add(renewScript, argCount(to-from), false), items[from:to])
		scripts = append(scripts, items[from:to])
		from = to
	}
	if err := batch.Send(ctx); err != nil {
		c.fail(len(items), rediskit.FromConn(err))
		return
	}
	for i, script := range scripts {
		reply, err := batch.Reply(i)
		c.handleReply(ctx, n, script, reply, err)
	}
}

// argCount returns the number of arguments for n leases: the command, the digest, the number of keys,
// the keys, the TTL and the owners.
func argCount(n int) int { return 4 + 2*n }

// fill sets the arguments of the script.
func fill(args []any, items []*leaseItem) {
	n := len(items)
	args[2], args[3+n] = n, items[0].ttl
	for k, it := range items {
		args[3+k], args[4+n+k] = &it.key, &it.owner
	}
}

// handleReply sets the outcomes of a script, or leaves its leases to followMoved.
func (c *renewCall) handleReply(ctx context.Context, n *redisconn.Node, items []*leaseItem, reply any, err error) {
	if err == nil {
		c.setOutcomes(items, reply)
		return
	}
	if c.store.redis.HasMoved(n, err) || len(items) > 1 && redisconn.IsNoKey(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.moved = append(c.moved, items...)
		return
	}
	owners := make([]string, len(items))
	for i, it := range items {
		owners[i] = it.owner
	}
	c.fail(len(items), rediskit.FromConn(c.store.redis.Explain(ctx, time.Time{}, err, owners...)))
}

// setOutcomes sets the outcomes of leases from the reply of a node.
func (c *renewCall) setOutcomes(items []*leaseItem, reply any) {
	lost, err := parseDenied(reply, len(items))
	if err != nil {
		c.fail(len(items), err)
		return
	}
	for _, it := range items {
		c.out[it.index] = renewal.Renewed
	}
	for _, index := range lost {
		it := items[max(index, -index)-1]
		c.out[it.index], c.why[it.index] = renewal.Lost, renewal.DeniedMissing
		if index < 0 {
			c.why[it.index] = renewal.DeniedTaken
		}
	}
}

// followMoved renews the leases that a node has redirected, one by one. Run follows redirections.
func (c *renewCall) followMoved(ctx context.Context) {
	for _, it := range c.moved {
		args := make([]any, argCount(1))
		fill(args, []*leaseItem{it})
		reply, err := c.store.run(ctx, renewScript, it.owner, args...)
		if err != nil {
			c.fail(1, err)
			continue
		}
		c.setOutcomes([]*leaseItem{it}, reply.Value)
	}
}
