// ReleaseAll, and what the answers to releases mean.

package rediskit

import (
	"context"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	releasesAtATime   = 1000 // leases in one round trip to a node
	redirectedAtATime = 8    // redirected leases that are released concurrently
)

// ReleaseAll implements [driver.Store].
func ReleaseAll[S any](ctx context.Context, p *Plan[S], batch []driver.Lease, out []error) {
	clear(out[:len(batch)])
	r := &releasing[S]{call: newCall(p, true), out: out}
	for chunk := range slices.Chunk(batch, releasesAtATime) {
		r.serve(ctx, chunk, r)
		r.followAll(ctx, chunk)
		r.out = r.out[len(chunk):]
	}
	r.free()
}

// releasing is a call of ReleaseAll, and the judge of its answers.
type releasing[S any] struct {
	*call[S]
	out   []error
	moved []int // indexes of leases that were redirected
}

// fail implements judge.
func (r *releasing[S]) fail(items []Item[S], err error) {
	for i := range items {
		r.out[items[i].index] = basic.Failed(r.plan.Store, "release", err)
	}
}

// answered implements judge.
func (r *releasing[S]) answered(items []Item[S], reply any, _ error, again []Item[S]) ([]Item[S], error) {
	left, err := r.plan.Parse(items, reply)
	if err != nil {
		r.fail(items, err)
		return again, nil
	}
	for _, index := range left {
		it := items[index.(int64)-1]
		it.Alone = true
		again = append(again, it)
	}
	return again, nil
}

// redirected implements judge. A script of a release has several keys, so the client must hold it back
// while they are on two nodes.
func (r *releasing[S]) redirected(it *Item[S]) bool {
	r.moved = append(r.moved, it.index)
	return true
}

// followAll releases the leases that were redirected, one by one.
func (r *releasing[S]) followAll(ctx context.Context, batch []driver.Lease) {
	var wg sync.WaitGroup
	for k := range min(redirectedAtATime, len(r.moved)) {
		wg.Go(func() {
			for i := k; i < len(r.moved); i += redirectedAtATime {
				at := r.moved[i]
				r.out[at] = r.plan.Release(ctx, batch[at])
			}
		})
	}
	wg.Wait()
	r.moved = r.moved[:0]
}
