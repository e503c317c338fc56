package redlock

import (
	"context"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

var _ driver.BulkReleaser = (*Store)(nil)

const (
	maxBulk  = 1000 // leases in one round trip to a node
	maxMoved = 8    // redirected leases that are released concurrently
)

// ReleaseAll implements [driver.BulkReleaser]. It sends the script of Release for each lease. Many
// scripts share a round trip. Options.Timeout bounds each 1,000 leases of a node.
//
// ReleaseAll does not use DELEX or DELIFEQ. A lease with a tombstone needs the script, and each lease
// whose command is refused, because its slot has moved or the key has another type, needs it too. So
// a call would take two round trips instead of one.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	r := &bulkRelease{store: s, batch: batch, out: out}
	var wg sync.WaitGroup
	for n, items := range r.byNode(ctx) {
		wg.Go(func() {
			for chunk := range slices.Chunk(items, maxBulk) {
				r.onNode(ctx, n, chunk)
			}
		})
	}
	wg.Wait()
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
	args  []any
}

// fail sets the error of a lease.
func (r *bulkRelease) fail(index int, err error) {
	r.out[index] = failed("release", r.batch[index].Key, err)
}

// byNode returns the leases by the nodes that serve them. It fails the invalid leases.
func (r *bulkRelease) byNode(ctx context.Context) map[*redisconn.Node][]releaseItem {
	s := r.store
	nodes := make(map[*redisconn.Node][]releaseItem)
	for i := range r.batch {
		l := &r.batch[i]
		r.out[i] = nil
		err := s.usable(ctx)
		var k keys
		if err == nil {
			k, err = s.keys(&l.Request)
		}
		if err != nil {
			r.fail(i, err)
			continue
		}
		n := s.redis.Serving(redisconn.SlotOf(k.lock))
		if n == nil {
			r.moved = append(r.moved, i)
			continue
		}
		nodes[n] = append(nodes[n], releaseItem{index: i, args: releaseArgs(l, k)})
	}
	return nodes
}

// onNode releases leases of one node in one round trip.
func (r *bulkRelease) onNode(ctx context.Context, n *redisconn.Node, items []releaseItem) {
	conn := r.store.redis
	calls := make([]*redisconn.Call, len(items))
	for i, it := range items {
		calls[i] = &redisconn.Call{Script: releaseScript, Args: it.args}
	}
	until, err := conn.RunAll(ctx, n, calls)
	if err != nil {
		for _, it := range items {
			r.fail(it.index, rediskit.FromConn(err))
		}
		return
	}
	for i, it := range items {
		err := calls[i].Err
		switch {
		case err == nil:
			if err = parseReleased(calls[i].Reply); err != nil {
				r.fail(it.index, err)
			}
		case conn.HasMoved(n, err):
			r.mu.Lock()
			r.moved = append(r.moved, it.index)
			r.mu.Unlock()
		default:
			r.fail(it.index, rediskit.FromConn(conn.Explain(ctx, until, err, r.batch[it.index].Owner)))
		}
	}
}

// releaseMoved releases the leases that were redirected or have no known node. Release follows the
// redirections.
func (r *bulkRelease) releaseMoved(ctx context.Context) {
	var wg sync.WaitGroup
	for k := range min(maxMoved, len(r.moved)) {
		wg.Go(func() {
			for i := k; i < len(r.moved); i += maxMoved {
				at := r.moved[i]
				r.out[at] = r.store.Release(ctx, r.batch[at])
			}
		})
	}
	wg.Wait()
}
