package redisstore

import (
	"cmp"
	"context"
	"errors"
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

var _ renewal.Laner[driver.Lease] = (*Store)(nil)

// Lane implements [renewal.Laner]. On a cluster each master is a lane of its own. A lease
// changes its lane when its slot moves.
func (s *Store) Lane(l driver.Lease) int {
	if s.redis == nil || !s.redis.IsCluster() {
		return 0
	}
	st, ok := l.State.(*leaseState)
	if !ok || !st.matches(s, &l) {
		st = s.newState(&l.Request, l.Token)
	}
	if n := s.redis.Serving(st.slot); n != nil {
		return n.ID()
	}
	return 0 // no node serves the slot
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each
// master. Leases that have moved take more.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	return s.RenewExplained(ctx, batch, out, nil)
}

// RenewExplained implements [renewal.Explainer]. Of shared locks it knows only that the lease is
// missing.
func (s *Store) RenewExplained(ctx context.Context, batch []driver.Lease, out []renewal.Outcome, why []renewal.Denial) error {
	if len(batch) == 0 {
		return nil
	}
	f := renewCalls.Get().(*renewCall)
	f.acks = s.replicas.Renewals
	f.required = s.replicas.Renewals && s.replicas.Require
	f.why = why
	f.load(s, batch)
	f.run(ctx, s, out)
	unknown, err := f.unknown, f.err
	f.reset()
	renewCalls.Put(f)
	switch {
	case err == nil:
		return nil
	case len(batch) == 1:
		return failed("renew", batch[0].Key, err)
	default:
		return fmt.Errorf("redisstore: renew %s and others, %d of %d without an answer: %w", basic.Quote(batch[0].Key), unknown, len(batch), err)
	}
}

// run sends the items until each has an outcome or none can be had.
func (f *renewCall) run(ctx context.Context, s *Store, out []renewal.Outcome) {
	switch {
	case ctx == nil:
		f.drop(rediskit.ErrNilContext)
	case s.redis == nil:
		f.drop(rediskit.ErrZeroStore)
	}
	for len(f.items) > 0 {
		f.route(ctx, s)
		f.send(ctx, s)
		f.settle(ctx, s, out)
	}
}

// renewCall is one call of Renew.
type renewCall struct {
	acks     bool         // ask how many replicas have confirmed the renewals; see acknowledge
	required bool         // a renewal that too few replicas have confirmed is unknown
	acked    acknowledged // of the last node batch that was answered

	items       []leaseRef       // to be sent
	nodeBatches []*nodeBatch     // one for each node
	unknown     int              // leases without an answer
	err         error            // why the first of them has none
	why         []renewal.Denial // nil: the caller does not want to know
}

// leaseRef is a lease of the batch and the node that it is sent to.
type leaseRef struct {
	index int   // in the batch
	ttl   int64 // in ms
	*leaseState
	node   *redisconn.Node
	asking bool  // the node does not serve the slot yet
	hops   uint8 // how often the current step was redirected
	step   step
	alone  bool // send it in a script of its own
}

// renewCalls keeps the buffers of earlier calls.
var renewCalls = sync.Pool{New: func() any { return new(renewCall) }}

// fail counts n leases with an unknown state.
func (f *renewCall) fail(n int, err error) {
	f.unknown += n
	if f.err == nil {
		f.err = err
	}
}

// drop fails all items.
func (f *renewCall) drop(err error) {
	f.fail(len(f.items), err)
	clear(f.items)
	f.items = f.items[:0]
}

// load fills the renewCall from a batch, without the leases that cannot be renewed.
func (f *renewCall) load(s *Store, batch []driver.Lease) {
	var one *redisconn.Node
	if s.redis != nil {
		one = s.redis.SingleNode()
	}
	for i := range batch {
		st, err := s.stateOf(&batch[i])
		if err != nil {
			f.fail(1, err)
			continue
		}
		f.items = append(f.items, leaseRef{index: i, ttl: batch[i].TTL.Milliseconds(), leaseState: st, node: one})
	}
}

// route finds the node of each item, and sorts the items so that those of one node and one
// script follow each other.
func (f *renewCall) route(ctx context.Context, s *Store) {
	if s.redis.IsCluster() {
		f.find(ctx, s)
	}
	order := func(a, b leaseRef) int {
		if c := cmp.Or(cmp.Compare(a.node.ID(), b.node.ID()), cmp.Compare(a.ttl, b.ttl)); c != 0 || a.shared == b.shared {
			return c
		}
		if b.shared {
			return -1
		}
		return 1
	}
	if !slices.IsSortedFunc(f.items, order) {
		slices.SortStableFunc(f.items, order)
	}
}

// find sets the node of each item that was not redirected to the master of its slot. If a
// master is not known, find asks the cluster, once.
func (f *renewCall) find(ctx context.Context, s *Store) {
	found := f.items[:0]
	var err error
	for _, it := range f.items {
		if it.node == nil {
			it.node = s.redis.Serving(it.slot)
		}
		if it.node == nil && err == nil {
			it.node, err = s.redis.Master(ctx, it.slot)
			err = rediskit.FromConn(err)
		}
		if it.node == nil {
			f.fail(1, err)
			continue
		}
		found = append(found, it)
	}
	f.items = found
}

// send sends the items and returns when all nodes have answered or failed.
func (f *renewCall) send(ctx context.Context, s *Store) {
	for from := 0; from < len(f.items); {
		to := from + 1
		for to < len(f.items) && f.items[to].node == f.items[from].node {
			to++
		}
		r := newNodeBatch(s, f.items[from:to])
		if f.acks {
			r.acknowledge(ctx)
		}
		f.nodeBatches = append(f.nodeBatches, r)
		from = to
	}
	if len(f.nodeBatches) == 1 {
		f.nodeBatches[0].send(ctx)
		return
	}
	var wg sync.WaitGroup
	for _, r := range f.nodeBatches {
		wg.Go(func() { r.send(ctx) })
	}
	wg.Wait()
}

// settle sets the outcomes. It keeps the items that must be sent again, to another node or
// for their next step.
func (f *renewCall) settle(ctx context.Context, s *Store, out []renewal.Outcome) {
	again := f.items[:0] // overwrites only items that are already settled
	for _, r := range f.nodeBatches {
		if r.err != nil {
			f.fail(len(r.items), r.err)
			continue // it is not freed, because it may still be sending
		}
		var short error
		if f.acks {
			f.acked = r.acknowledged(ctx)
			if f.required {
				short = f.acked.short(s)
			}
		}
		for i := range r.parts {
			p := &r.parts[i]
			items := r.items[p.from:p.to]
			lost, err := r.lost(i)
			if err == nil {
				again = f.judge(items, lost, short, out, again)
				continue
			}
			more, ok := s.reroute(items, err, r.batch.Node())
			if !ok {
				f.fail(len(items), rediskit.FromConn(s.redis.Explain(ctx, time.Time{}, err, owners(items)...)))
			}
			again = append(again, more...)
		}
		r.free()
	}
	clear(f.items[len(again):])
	clear(f.nodeBatches)
	f.items, f.nodeBatches = again, f.nodeBatches[:0]
}

// judge sets the outcomes of items that a node has answered. It appends the items that need
// another answer to again, and returns it. short says why the replicas do not suffice, if they do
// not.
func (f *renewCall) judge(items []leaseRef, lost []any, short error, out []renewal.Outcome, again []leaseRef) []leaseRef {
	for i := range items {
		it := &items[i]
		var denial renewal.Denial
		if len(lost) > 0 {
			switch lost[0].(int64) {
			case int64(i + 1):
				denial = renewal.DeniedMissing
			case -int64(i + 1):
				denial = renewal.DeniedTaken
			}
		}
		gone := denial != renewal.DeniedUnknown
		if gone {
			lost = lost[1:]
		}
		switch {
		case gone && it.asking:
			// The node does not serve the slot yet. The key may still have been on the
			// master when this node executed the script, or may have returned there.
			if it.hops >= redisconn.MaxRedirects-1 { // the next redirection would exceed the limit
				f.fail(1, errElsewhere)
				continue
			}
			it.node, it.asking, it.hops = nil, false, it.hops+1
			again = append(again, *it)
		case gone && it.step != stepMembers:
			out[it.index] = renewal.Lost
			if f.why != nil {
				f.why[it.index] = denial
			}
		case (it.step == stepAll || it.step == stepHolders) && short != nil:
			f.fail(1, short)
		case it.step == stepAll || it.step == stepHolders:
			out[it.index] = renewal.Renewed
		default:
			again = append(again, it.nextStep())
		}
	}
	return again
}

// reroute prepares items that a node refused for the next node or step. It reports false
// if there is none.
func (s *Store) reroute(items []leaseRef, err error, from *redisconn.Node) ([]leaseRef, bool) {
	if len(items) > 1 && redisconn.IsNoKey(err) {
		for i := range items {
			items[i].alone = true
		}
		return items, true
	}
	if !s.redis.IsCluster() {
		return nil, false
	}
	first := &items[0] // on a cluster a script has only one
	if redisconn.IsTryAgain(err) && first.step == stepAll && first.shared {
		*first = first.nextStep()
		return items, true
	}
	if first.hops == redisconn.MaxRedirects {
		return nil, false
	}
	to, asking, ok := s.redis.Follow(from, err, first.slot)
	if !ok {
		return nil, false
	}
	first.node, first.asking, first.hops = to, asking, first.hops+1
	return items, true
}

// errElsewhere means that the state of a lease is unknown, because only nodes that do not
// serve its slot answered that the key is missing.
var errElsewhere = errors.New("the slot is moving, and neither node had the key")

func owners(items []leaseRef) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = items[i].holder()
	}
	return list
}

// reset clears everything except the buffers.
func (f *renewCall) reset() {
	f.unknown, f.err, f.why, f.acks, f.required, f.acked = 0, nil, nil, false, false, acknowledged{}
}
