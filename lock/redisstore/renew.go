package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// renewTimeout bounds a renewal whose ctx would allow more. A server that has not
// answered by then will not.
const renewTimeout = 30 * time.Second

var _ renewal.Laner[lock.Lease] = (*Store)(nil)

// Lane implements [renewal.Laner]: on a cluster each master is a lane of its own. A
// lease changes its lane with its slot.
func (s *Store) Lane(l lock.Lease) int {
	if s.cluster == nil {
		return 0
	}
	st, ok := l.State.(*state)
	if !ok || !st.fits(s, &l) {
		st = s.newState(&l.Request, l.Token)
	}
	if n := s.cluster.slots[st.slot].Load(); n != nil {
		return n.id
	}
	return 0 // that of slots which nobody serves
}

// Renew implements [renewal.Renewer]. The batch is one round trip, on a cluster one
// to each master, and more for what has moved.
func (s *Store) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if len(batch) == 0 {
		return nil
	}
	f := flights.Get().(*flight)
	f.load(s, batch)
	switch {
	case ctx == nil:
		f.drop(errNilContext)
	case s.closing == nil:
		f.drop(errZeroStore)
	}
	for redirects := 0; len(f.items) > 0; redirects++ {
		f.route(ctx, s)
		f.fly(ctx, s)
		f.settle(ctx, s, out, redirects < maxRedirects)
	}
	unknown, err := f.unknown, f.err
	f.reset()
	flights.Put(f)
	switch {
	case err == nil:
		return nil
	case len(batch) == 1:
		return failed("renew", batch[0].Key, err)
	default:
		return fmt.Errorf("redisstore: renew %s and others, %d of %d without an answer: %w", quoted(batch[0].Key), unknown, len(batch), err)
	}
}

// flight is one call of Renew.
type flight struct {
	items   []item   // what is to be sent
	rounds  []*round // one for each node
	unknown int      // leases without an answer
	err     error    // why, of the first of them
}

// item is a lease: its index in the batch, its TTL in ms, its texts, and where it
// goes.
type item struct {
	index int
	ttl   int64
	*state
	node   *node
	asking bool // the node does not serve the slot yet
}

// flights are kept for their buffers.
var flights = sync.Pool{New: func() any { return new(flight) }}

// fail notes that n leases are unknown.
func (f *flight) fail(n int, err error) {
	f.unknown += n
	if f.err == nil {
		f.err = err
	}
}

// drop gives all items up.
func (f *flight) drop(err error) {
	f.fail(len(f.items), err)
	clear(f.items)
	f.items = f.items[:0]
}

// load fills the flight from a batch, without what cannot be renewed.
func (f *flight) load(s *Store, batch []lock.Lease) {
	for i := range batch {
		st, err := s.stateOf(&batch[i])
		if err != nil {
			f.fail(1, err)
			continue
		}
		f.items = append(f.items, item{index: i, ttl: batch[i].TTL.Milliseconds(), state: st, node: s.one})
	}
}

// route finds the nodes of a cluster, and puts items of one node and one script
// together.
func (f *flight) route(ctx context.Context, s *Store) {
	if s.cluster != nil {
		f.find(ctx, s)
	}
	order := func(a, b item) int {
		if c := cmp.Or(cmp.Compare(a.node.id, b.node.id), cmp.Compare(a.ttl, b.ttl)); c != 0 || a.shared == b.shared {
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

// find finds the masters of the items that no redirection names one for. If one is
// not known the cluster is asked, once.
func (f *flight) find(ctx context.Context, s *Store) {
	c := s.cluster
	found := f.items[:0]
	var err error
	for _, it := range f.items {
		if it.node == nil {
			it.node = c.slots[it.slot].Load()
		}
		if it.node == nil && err == nil {
			if it.node, err = c.master(ctx, it.slot); err != nil {
				err = s.reason(ctx, err)
			}
		}
		if it.node == nil {
			f.fail(1, err)
			continue
		}
		found = append(found, it)
	}
	f.items = found
}

// fly sends the items and returns when they are answered, or will not be.
func (f *flight) fly(ctx context.Context, s *Store) {
	for from := 0; from < len(f.items); {
		to := from + 1
		for to < len(f.items) && f.items[to].node == f.items[from].node {
			to++
		}
		f.rounds = append(f.rounds, newRound(f.items[from:to], s.keysPerScript))
		from = to
	}
	if len(f.rounds) == 1 {
		f.rounds[0].fly(ctx, s)
		return
	}
	var wg sync.WaitGroup
	for _, r := range f.rounds {
		wg.Go(func() { r.fly(ctx, s) })
	}
	wg.Wait()
}

// settle tells the outcomes, and leaves those items that are to be sent to another
// node: none, unless redirections are to be followed.
func (f *flight) settle(ctx context.Context, s *Store, out []renewal.Outcome, follow bool) {
	again := f.items[:0] // of items that the rounds have been asked about
	for _, r := range f.rounds {
		if r.err != nil {
			f.fail(len(r.items), r.err)
			s.heard(r.node, r.err)
			continue // and it may still be at work
		}
		for i := range r.parts {
			p := &r.parts[i]
			items := r.items[p.from:p.to]
			err := p.settle(items, out)
			s.heard(r.node, err)
			if err == nil {
				continue
			}
			if to, ok := redirected(err, r.node.addr); ok && follow && s.cluster != nil {
				again = append(again, readdress(items, s.cluster.follow(to, items[0].slot), to.asking)...)
				continue
			}
			f.fail(len(items), s.reason(ctx, s.clean(err, owners(items)...)))
		}
		r.free()
	}
	clear(f.items[len(again):])
	clear(f.rounds)
	f.items, f.rounds = again, f.rounds[:0]
}

// readdress notes to which node items go next, and returns them.
func readdress(items []item, n *node, asking bool) []item {
	for i := range items {
		items[i].node, items[i].asking = n, asking
	}
	return items
}

func owners(items []item) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = items[i].holder()
	}
	return list
}

// reset forgets everything but the buffers.
func (f *flight) reset() {
	f.unknown, f.err = 0, nil
}
