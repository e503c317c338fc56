package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var _ driver.BulkReleaser = (*Store)(nil)

const (
	releasesAtATime   = 1000 // leases in one round trip to a node
	redirectedAtATime = 8    // redirected leases that are released concurrently
)

// ReleaseAll implements [driver.BulkReleaser]. One script deletes up to 25 locks without
// waiters, or one lock on a cluster. The other locks are released with the script of Release.
// Many scripts share a round trip. Options.Timeout bounds each 1,000 leases of a node.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	r := &bulkRelease{store: s, batch: batch, out: out}
	byNode := r.load()
	if len(byNode) == 1 {
		for n, items := range byNode {
			r.onNode(ctx, n, items)
		}
	} else {
		var wg sync.WaitGroup
		for n, items := range byNode {
			wg.Go(func() { r.onNode(ctx, n, items) })
		}
		wg.Wait()
	}
	r.releaseMoved(ctx)
	return nil
}

// bulkRelease is one call of ReleaseAll.
type bulkRelease struct {
	store *Store
	batch []driver.Lease
	out   []error

	mu    sync.Mutex // guards moved
	moved []int      // indexes of leases that were redirected or have no known node
}

// releaseItem is a lease to be released.
type releaseItem struct {
	index int // in the batch
	state *leaseState
	plain bool // release_all.lua may release it
}

// fail sets the error of a lease.
func (r *bulkRelease) fail(index int, err error) {
	r.out[index] = failed("release", r.batch[index].Key, err)
}

// load returns the leases by node. It fails the invalid ones.
func (r *bulkRelease) load() map[*redisconn.Node][]releaseItem {
	byNode := make(map[*redisconn.Node][]releaseItem)
	for i := range r.batch {
		l := &r.batch[i]
		r.out[i] = nil
		if r.store.redis == nil {
			r.fail(i, rediskit.ErrZeroStore)
			continue
		}
		st, err := r.store.stateOf(l)
		if err != nil {
			r.fail(i, err)
			continue
		}
		n := r.store.redis.Serving(st.slot)
		if n == nil {
			r.moved = append(r.moved, i)
			continue
		}
		plain := !st.shared && !l.Unanswered && l.Token > 0 && l.Keep() == 0
		byNode[n] = append(byNode[n], releaseItem{index: i, state: st, plain: plain})
	}
	return byNode
}

// onNode releases leases that are on one node.
func (r *bulkRelease) onNode(ctx context.Context, n *redisconn.Node, items []releaseItem) {
	for chunk := range slices.Chunk(items, releasesAtATime) {
		for len(chunk) > 0 {
			chunk = r.exchange(ctx, n, chunk)
		}
	}
}

// exchange sends one round trip. It returns the leases that must be sent again, with plain
// set to false.
func (r *bulkRelease) exchange(ctx context.Context, n *redisconn.Node, items []releaseItem) (again []releaseItem) {
	s := r.store
	parts := r.parts(items)
	calls := make([]*redisconn.Call, len(parts))
	for i, p := range parts {
		calls[i] = &p.Call
	}
	until, err := s.runAll(ctx, n, calls)
	if err != nil {
		for _, it := range items {
			r.fail(it.index, err)
		}
		return nil
	}
	for _, p := range parts {
		left := r.settle(ctx, n, until, p)
		for i := range left {
			left[i].plain = false
		}
		again = append(again, left...)
	}
	return again
}

// releasePart is one script and its leases.
type releasePart struct {
	redisconn.Call
	items []releaseItem
}

func (r *bulkRelease) parts(items []releaseItem) []*releasePart {
	var parts []*releasePart
	var plain []releaseItem
	for _, it := range items {
		if it.plain {
			plain = append(plain, it)
		} else {
			parts = append(parts, r.single(it))
		}
	}
	for some := range slices.Chunk(plain, r.store.keysPerScript) {
		parts = append(parts, plainPart(some))
	}
	return parts
}

// plainPart returns a call of release_all.lua.
func plainPart(items []releaseItem) *releasePart {
	n := len(items)
	args := make([]any, 3+3*n)
	queues := make([]string, n)
	args[2] = 2 * n
	for i, it := range items {
		queues[i] = it.state.key + queueEnd
		args[3+i], args[3+n+i], args[3+2*n+i] = &it.state.key, &queues[i], &it.state.value
	}
	return &releasePart{Call: redisconn.Call{Script: releaseAllScript, Args: args}, items: items}
}

// single returns a call of the script that Release sends.
func (r *bulkRelease) single(it releaseItem) *releasePart {
	sc, args, _ := r.store.releaseArgs(&r.batch[it.index])
	return &releasePart{Call: redisconn.Call{Script: sc, Args: args}, items: []releaseItem{it}}
}

// settle sets the outcomes of a part, and returns the leases that must be sent again to
// this node.
func (r *bulkRelease) settle(ctx context.Context, n *redisconn.Node, until time.Time, p *releasePart) (left []releaseItem) {
	s := r.store
	reply, err := p.Reply, p.Err
	if err == nil && p.Script == releaseAllScript {
		var indexes []any
		if indexes, err = parseLost(reply, len(p.items)); err == nil {
			for _, index := range indexes {
				left = append(left, p.items[index.(int64)-1])
			}
			return left
		}
	} else if err == nil {
		err = parseReleased(reply)
	}
	switch {
	case err == nil:
		return nil
	case len(p.items) > 1 && redisconn.IsNoKey(err):
		return p.items
	}
	if s.redis.HasMoved(n, err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, it := range p.items {
			r.moved = append(r.moved, it.index)
		}
		return nil
	}
	for _, it := range p.items {
		r.fail(it.index, rediskit.FromConn(s.redis.Explain(ctx, until, err, it.state.holder())))
	}
	return nil
}

// releaseMoved releases the leases that were redirected or have no known node. Release
// follows the redirections.
func (r *bulkRelease) releaseMoved(ctx context.Context) {
	var wg sync.WaitGroup
	for k := range min(redirectedAtATime, len(r.moved)) {
		wg.Go(func() {
			for i := k; i < len(r.moved); i += redirectedAtATime {
				at := r.moved[i]
				r.out[at] = r.store.Release(ctx, r.batch[at])
			}
		})
	}
	wg.Wait()
}

// releaseArgs returns the script that releases a lease, and its arguments. The first two are
// nil, because the client sets them. The call that holds the arguments may be freed after a reply;
// it is nil in the shared modes.
func (s *Store) releaseArgs(l *driver.Lease) (*redisconn.Script, []any, *exclusiveCall) {
	var refuse time.Duration
	if l.Unanswered {
		refuse = tombstone
	}
	if l.Mode != driver.Exclusive {
		k := s.sharedKeys(l.Key, l.Owner)
		owner := l.Owner
		args := []any{
			nil, nil, 7,
			&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, &k.tombstone,
			&owner, refuse.Milliseconds(), tokenTTL.Milliseconds(),
		}
		if keep := l.Keep(); keep > 0 && s.CanKeep(l.Mode) {
			args = append(args, keep.Milliseconds())
		}
		return sharedReleaseScript, args, nil
	}
	c := s.newExclusiveCall(&l.Request)
	if keep := l.Keep(); keep > 0 {
		return releaseScript, c.setNumbers(refuse, tokenTTL, keep+time.Millisecond), c // the server rounds the time of an expiry down
	}
	return releaseScript, c.setNumbers(refuse, tokenTTL), c
}
