package redisson

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

// leasesPerScript bounds the leases that one script renews. The server executes nothing else while
// a script runs. On a cluster a script renews one lease, because it must not touch two slots.
const leasesPerScript = 25

var _ renewal.Laner[driver.Lease] = (*Store)(nil)

// Lane implements [renewal.Laner]. On a cluster each master is a lane of its own.
func (s *Store) Lane(l driver.Lease) int {
	if s.redis == nil || !s.redis.IsCluster() {
		return 0
	}
	if n := s.redis.Serving(redisconn.SlotOf(s.options.Prefix + l.Key)); n != nil {
		return n.ID()
	}
	return 0 // no node serves the slot
}

// Renew implements [renewal.Renewer]. A batch is one round trip, or on a cluster one to each master.
// Leases that have moved take more. The state of a lease whose slot is moving may be unknown until the
// next renewal.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	r := &renewCall{store: s}
	for i := range batch {
		r.add(i, &batch[i], out)
	}
	switch {
	case len(batch) == 0:
		return nil
	case ctx == nil:
		r.fail(len(batch), rediskit.ErrNilContext)
	case s.redis == nil:
		r.fail(len(batch), rediskit.ErrZeroStore)
	case ctx.Err() != nil:
		clear(out[:len(batch)])
		r.fail(len(batch), context.Cause(ctx))
	default:
		for len(r.items) > 0 {
			r.sendAll(ctx, out)
		}
	}
	switch {
	case r.err == nil:
		return nil
	case len(batch) == 1:
		return failed("renew", batch[0].Key, r.err)
	}
	return fmt.Errorf("redisson: renew %s and others, %d of %d without an answer: %w", basic.Quote(batch[0].Key), r.unknown, len(batch), r.err)
}

// renewCall is one call of Renew.
type renewCall struct {
	store   *Store
	items   []renewItem // to be sent
	unknown int         // leases without an answer
	err     error       // of the first of them
}

// renewItem is a lease of the batch and the node that it is sent to.
type renewItem struct {
	*leaseState
	index  int   // in the batch
	ttl    int64 // in ms
	node   *redisconn.Node
	asking bool // the node does not serve the slot yet
	hops   int  // how often it was redirected
}

// add appends a lease, unless it is known without the server that it cannot be renewed.
func (r *renewCall) add(index int, l *driver.Lease, out []renewal.Outcome) {
	if r.store.redis == nil {
		return
	}
	st, err := r.store.stateOf(l)
	if err == nil {
		err = r.store.checkReader(&l.Request)
	}
	switch {
	case err != nil:
		r.fail(1, err)
	case st.kind != renewFenced && l.Token != 0:
		out[index] = renewal.Lost // these kinds have no tokens, so this is another lease
	default:
		r.items = append(r.items, renewItem{leaseState: st, index: index, ttl: l.TTL.Milliseconds()})
	}
}

// fail counts n leases with an unknown state.
func (r *renewCall) fail(n int, err error) {
	r.unknown += n
	if r.err == nil {
		r.err = err
	}
}

// sendAll sends all items once. It leaves the redirected items in r.items.
func (r *renewCall) sendAll(ctx context.Context, out []renewal.Outcome) {
	items := r.route(ctx)
	r.items = nil
	var batches []*renewBatch
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && items[to].node == items[from].node {
			to++
		}
		batches = append(batches, newRenewBatch(r.store, items[from:to]))
		from = to
	}
	var wg sync.WaitGroup
	for _, b := range batches {
		wg.Go(func() { b.err = rediskit.FromConn(b.batch.Send(ctx)) })
	}
	wg.Wait()
	for _, b := range batches {
		r.handleReplies(ctx, b, out)
	}
}

// route finds the node of each item that was not redirected. It sorts the items so that the items of
// one script follow each other.
func (r *renewCall) route(ctx context.Context) []renewItem {
	found := r.items[:0]
	var err error
	for _, it := range r.items {
		if it.node == nil && err == nil {
			it.node, err = r.store.redis.Master(ctx, it.slot)
		}
		if it.node == nil {
			r.fail(1, rediskit.FromConn(err))
			continue
		}
		found = append(found, it)
	}
	slices.SortStableFunc(found, func(a, b renewItem) int {
		return cmp.Or(cmp.Compare(a.node.ID(), b.node.ID()), cmp.Compare(a.kind, b.kind), cmp.Compare(a.ttl, b.ttl))
	})
	return found
}

// renewBatch is one pipeline of renewals to one node. Its sending may outlive the call of Renew. It
// then uses only the fields batch and err.
type renewBatch struct {
	batch   redisconn.Batch
	scripts [][]renewItem // the items of each script
	err     error         // why there are no answers
}

// newRenewBatch returns a batch for items of one node.
func newRenewBatch(s *Store, items []renewItem) *renewBatch {
	b, limit := new(renewBatch), leasesPerScript
	if s.redis.IsCluster() {
		limit = 1
	}
	b.batch.Begin(s.redis, items[0].node, 8*len(items)) // an upper bound of the arguments
	for len(items) > 0 {
		n := 1
		for n < min(len(items), limit) && items[n].kind == items[0].kind && items[n].ttl == items[0].ttl {
			n++
		}
		b.add(items[:n])
		items = items[n:]
	}
	return b
}

// add adds the script for items of one kind and TTL.
func (b *renewBatch) add(items []renewItem) {
	script, keys, values := renewScript, 1, 1 // of one lease
	switch items[0].kind {
	case renewFenced:
		script, keys, values = fencedRenewScript, 2, 2
	case renewRW:
		script, keys = rwRenewScript, 2
	}
	n := len(items)
	args := b.batch.Add(script, 3+n*keys+1+n*values, items[0].asking)
	args[2] = n * keys
	at := args[3:]
	for i := range items {
		at[i*keys] = items[i].name
		switch items[i].kind {
		case renewFenced:
			at[i*keys+1] = items[i].tokenKey
		case renewRW:
			at[i*keys+1] = items[i].reader
		}
	}
	at = at[n*keys:]
	at[0] = items[0].ttl
	for i := range items {
		at[1+i*values] = items[i].owner
		if values == 2 {
			at[2+i*values] = items[i].token
		}
	}
	b.scripts = append(b.scripts, items)
}

// handleReplies sets the outcomes of a batch, and keeps the items that must be sent again.
func (r *renewCall) handleReplies(ctx context.Context, b *renewBatch, out []renewal.Outcome) {
	conn := r.store.redis
	for i, items := range b.scripts {
		if b.err != nil {
			r.fail(len(items), b.err)
			continue
		}
		reply, err := b.batch.Reply(i)
		var lost []any
		if err == nil {
			if lost, err = parseLost(reply, len(items)); err != nil {
				conn.Suspect(b.batch.Node())
			}
		}
		if err == nil {
			r.setOutcomes(items, lost, out)
			continue
		}
		first := items[0] // on a cluster a script has only one
		to, asking, ok := conn.Follow(b.batch.Node(), err, first.slot)
		if !ok || first.hops == redisconn.MaxRedirects {
			r.fail(len(items), rediskit.FromConn(conn.Explain(ctx, time.Time{}, err, owners(items)...)))
			continue
		}
		first.node, first.asking, first.hops = to, asking, first.hops+1
		r.items = append(r.items, first)
	}
}

// setOutcomes sets the outcomes of items from the reply of a node. A node that does not serve the slot
// yet may not have the key, so an item that it denies is sent again.
func (r *renewCall) setOutcomes(items []renewItem, lost []any, out []renewal.Outcome) {
	for i, it := range items {
		gone := len(lost) > 0 && lost[0] == int64(i+1)
		if gone {
			lost = lost[1:]
		}
		switch {
		case !gone:
			out[it.index] = renewal.Renewed
		case !it.asking:
			out[it.index] = renewal.Lost
		case it.hops >= redisconn.MaxRedirects:
			r.fail(1, errElsewhere)
		default:
			it.node, it.asking, it.hops = nil, false, it.hops+1
			r.items = append(r.items, it)
		}
	}
}

// errElsewhere means that only nodes that do not serve the slot answered that the key is missing.
var errElsewhere = errors.New("the slot is moving, and neither node had the key")

func owners(items []renewItem) []string {
	list := make([]string, len(items))
	for i, it := range items {
		list[i] = it.owner
	}
	return list
}
