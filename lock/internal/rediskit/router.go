// The way of many leases to their nodes: load, route, send and split.

package rediskit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// LeasesPerScript bounds the leases of one script. The server executes nothing else while a script
// runs. A script that renews 25 locks of redisstore takes about 35 µs if there are few locks, and about
// 50 µs if there are 100,000, because their keys are not in the caches. Twice as many would save 5% of
// the server's time and double that delay. On a cluster a script has one lease, because it must not
// touch two slots.
const LeasesPerScript = 25

// Item is a lease on its way to a node.
type Item[S any] struct {
	Lease  *driver.Lease
	State  *S     // what the store needs of the lease
	Secret string // the owner in the form of the scripts, which errors must not show
	TTL    int64  // in ms; 0 if the script needs none
	Slot   uint16 // of the keys
	Kind   uint8  // a script has leases of one Kind and TTL
	Alone  bool   // a script must not have other leases
	Yields bool   // the reply to a renewal may show that others wait; see Plan.Wanted. Leases of one Kind have the same
	Step   uint8  // of Plan.Next: 0 is the script with all keys
	Minor  bool   // a denial of the current step is no loss

	index  int // in the batch
	node   *redisconn.Node
	asking bool  // the node does not serve the slot yet
	hops   uint8 // how often the current step was redirected
}

// Plan is how a store renews or releases many leases.
type Plan[S any] struct {
	Store string            // its name, for errors
	Redis *redisconn.Client // nil in the zero Store

	// Load sets State, Secret, Slot, and what else differs from zero, of an item. It returns an error, which may
	// be ErrOtherStore, if the lease cannot be sent.
	Load func(l *driver.Lease, it *Item[S]) error

	// Add adds one script for items of one Kind and TTL. They are one item if Step is set.
	Add func(b *redisconn.Batch, items []Item[S])

	// Next sets the next step of an item, for stores that can send a script for each key of a lease. The
	// first step follows when a node has only some of the keys. Next returns false after the last step.
	// nil means that leases have no steps.
	Next func(it *Item[S]) bool

	// Wanted is called for a lease that Yields if others wait for its lock. The reply then has n + i for the
	// i-th lease of n, after the leases that are lost.
	Wanted func(it *Item[S])

	// Unexplained is set if the scripts do not report what they have found instead of a lost lease.
	Unexplained bool

	// Parse reads the reply to a script that releases items. It returns the indexes, from 1, of the items that must
	// be sent again alone, or the error of all.
	Parse func(items []Item[S], reply any) (left []any, err error)

	// Release releases one lease, for ReleaseAll. It follows redirections.
	Release func(ctx context.Context, l driver.Lease) error

	// Confirm asks the replicas of each node, unless it is nil.
	Confirm Confirmer[S]
}

// Confirmer asks replicas for renewals.
type Confirmer[S any] interface {
	// Ask adds the question to a batch.
	Ask(ctx context.Context, b *redisconn.Batch, items []Item[S])

	// Short returns why the answer of the replicas does not suffice, or nil.
	Short(ctx context.Context, b *redisconn.Batch) error
}

// ErrOtherStore is the error of Load for a lease that this store cannot have granted.
var ErrOtherStore = errors.New("the lease is of another store")

// Lane returns the number of the node that serves a slot, for [renewal.Laner]. On a cluster each master
// is a lane of its own, and a lease changes its lane when its slot moves.
func Lane(c *redisconn.Client, slot uint16) int {
	if c == nil || !c.IsCluster() {
		return 0
	}
	if n := c.Serving(slot); n != nil {
		return n.ID()
	}
	return 0 // no node serves the slot
}

// judge decides what answers mean.
type judge[S any] interface {
	// fail takes items without an answer.
	fail(items []Item[S], err error)

	// answered takes the reply to a script. It appends the items that must be sent again to again.
	answered(items []Item[S], reply any, short error, again []Item[S]) ([]Item[S], error)

	// redirected reports whether it takes an item that a node has redirected. Otherwise the router
	// follows the redirection.
	redirected(it *Item[S]) bool
}

// call is one call of Renew or ReleaseAll.
type call[S any] struct {
	plan    *Plan[S]
	mayWait bool       // the call renews nothing
	items   []Item[S]  // to be sent
	trips   []*trip[S] // one for each node
	spare   []*trip[S] // for later calls
}

// trip is one pipeline to one node.
type trip[S any] struct {
	items []Item[S] // a part of call.items
	ends  []int     // of the items of each script
	node  *redisconn.Node
	batch redisconn.Batch
	err   error // why there are no answers

	oneByOne bool // the scripts were those of single locks; see redisconn.Client.OneByOne
}

// calls keeps the buffers of earlier calls.
var calls sync.Pool

func newCall[S any](p *Plan[S], mayWait bool) *call[S] {
	c, ok := calls.Get().(*call[S])
	if !ok {
		c = new(call[S]) // the first one, or the buffers of another store
	}
	c.plan, c.mayWait = p, mayWait
	return c
}

func (c *call[S]) free() {
	c.plan = nil
	calls.Put(c)
}

// serve sends the leases of a batch until the judge has decided about each. It passes leases that cannot be sent to the
// judge at once.
func (c *call[S]) serve(ctx context.Context, batch []driver.Lease, j judge[S]) {
	var err error
	switch {
	case ctx == nil:
		err = ErrNilContext
	case c.plan.Redis == nil:
		err = ErrZeroStore
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	for i := range batch {
		c.items = append(c.items, Item[S]{Lease: &batch[i], index: i})
		last := len(c.items) - 1
		bad := err
		if bad == nil {
			bad = c.plan.Load(&batch[i], &c.items[last])
		}
		if bad != nil {
			j.fail(c.items[last:], bad)
			clear(c.items[last:]) // the call keeps no lease when it is free
			c.items = c.items[:last]
		}
	}
	for len(c.items) > 0 {
		c.route(ctx, j)
		c.send(ctx)
		c.settle(ctx, j)
	}
}

// route finds the node of each item that was not redirected, and sorts the items so that those of one
// node and one script follow each other. If a master is not known, route asks the cluster, once.
func (c *call[S]) route(ctx context.Context, j judge[S]) {
	found := c.items[:0]
	var err error
	for i := range c.items {
		it := &c.items[i]
		if it.node == nil {
			it.node = c.plan.Redis.Serving(it.Slot)
		}
		if it.node == nil && err == nil {
			it.node, err = c.plan.Redis.Master(ctx, it.Slot)
		}
		if it.node == nil {
			j.fail(c.items[i:i+1], err)
			continue
		}
		found = append(found, *it)
	}
	clear(c.items[len(found):])
	c.items = found
	order := func(a, b Item[S]) int {
		return cmp.Or(cmp.Compare(a.node.ID(), b.node.ID()), cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Kind, b.Kind))
	}
	if !slices.IsSortedFunc(c.items, order) {
		slices.SortStableFunc(c.items, order)
	}
}

// send sends the items, in one pipeline to each node, and returns when all have answered or failed.
func (c *call[S]) send(ctx context.Context) {
	most := c.plan.Redis.PerScript(LeasesPerScript)
	for rest := c.items; len(rest) > 0; {
		t := new(trip[S])
		if last := len(c.spare) - 1; last >= 0 {
			t, c.spare = c.spare[last], c.spare[:last]
		}
		t.node, t.batch.MayWait, t.oneByOne = rest[0].node, c.mayWait, c.plan.Redis.OneByOne()
		to := 0
		for to < len(rest) && rest[to].node == rest[0].node {
			first, from := &rest[to], to
			to++
			for to < min(len(rest), from+most) && first.shares(&rest[to]) {
				to++
			}
			if first.asking {
				t.batch.Asking()
			}
			c.plan.Add(&t.batch, rest[from:to])
			t.ends = append(t.ends, to)
		}
		t.items, rest = rest[:to], rest[to:]
		if c.plan.Confirm != nil {
			c.plan.Confirm.Ask(ctx, &t.batch, t.items)
		}
		c.trips = append(c.trips, t)
	}
	var wg sync.WaitGroup
	for i, t := range c.trips {
		send := func() { t.err = c.plan.Redis.Send(ctx, t.node, &t.batch) }
		if i < len(c.trips)-1 {
			wg.Go(send)
		} else {
			send()
		}
	}
	wg.Wait()
}

// shares reports whether a script of an item may have another one too.
func (it *Item[S]) shares(other *Item[S]) bool {
	return it.node == other.node && it.TTL == other.TTL && it.Kind == other.Kind &&
		!it.Alone && !other.Alone && it.Step == 0 && other.Step == 0
}

// settle passes the answers to the judge. It keeps the items that must be sent again, to another node or
// for their next step.
func (c *call[S]) settle(ctx context.Context, j judge[S]) {
	again := c.items[:0] // overwrites only items that are already settled
	for _, t := range c.trips {
		var short error
		switch {
		case t.err != nil:
			j.fail(t.items, t.err)
			t.ends = nil
		case c.plan.Confirm != nil:
			short = c.plan.Confirm.Short(ctx, &t.batch)
		}
		from := 0
		for i, to := range t.ends {
			items := t.items[from:to]
			from = to
			reply, err := t.batch.Reply(i)
			if err == nil {
				if again, err = j.answered(items, reply, short, again); err == nil {
					continue
				}
				c.plan.Redis.Suspect(t.node)
			}
			if more, ok := c.reroute(items, err, t, j); ok {
				again = append(again, more...)
				continue
			}
			secrets := make([]string, len(items))
			for k := range items {
				secrets[k] = items[k].Secret
			}
			j.fail(items, c.plan.Redis.Explain(ctx, err, secrets...))
		}
		t.batch.Reset()
		t.items, t.ends, t.node, t.err = nil, t.ends[:0], nil, nil
		c.spare = append(c.spare, t)
	}
	clear(c.items[len(again):])
	clear(c.trips)
	c.items, c.trips = again, c.trips[:0]
}

// reroute prepares items that a node refused for the next node or step. It returns none if the judge has
// taken them, and reports false if the refusal is final.
func (c *call[S]) reroute(items []Item[S], err error, t *trip[S], j judge[S]) ([]Item[S], bool) {
	if len(items) > 1 && c.plan.Redis.RefusesSeveral(err) || !t.oneByOne && c.plan.Redis.RefusesExpressions(err) {
		for i := range items {
			items[i].Alone = true
		}
		return items, true
	}
	first := &items[0] // on a cluster a script has only one
	to, asking, ok := c.plan.Redis.Follow(t.node, err, first.Slot)
	if again := redisconn.IsTryAgain(err) && c.plan.Redis.IsCluster(); ok || again {
		switch {
		case j.redirected(first):
			return nil, true
		case again && first.Step == 0 && c.next(first):
			return items, true
		}
	}
	if !ok || first.hops == redisconn.MaxRedirects {
		return nil, false
	}
	first.node, first.asking, first.hops = to, asking, first.hops+1
	return items, true
}

// next sets the next step of an item, to be sent to the master of its slot. It reports whether there is
// one.
func (c *call[S]) next(it *Item[S]) bool {
	it.node, it.asking, it.hops = nil, false, 0
	return c.plan.Next != nil && c.plan.Next(it)
}
