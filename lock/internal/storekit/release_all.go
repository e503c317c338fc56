// ReleaseAll, which releases many leases for the Close of a client.

package storekit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxCalls        = 64   // calls of the store at one time
	maxTries        = 3    // for one lease
	maxBulk         = 1000 // leases of one call of ReleaseAll
	maxBulksPerLane = 4    // calls of ReleaseAll for one lane at one time
)

// ReleaseAll releases many leases for the Close of a client. It returns when each lease is
// released or has failed maxTries times, or when ctx ends. It may change the order of the
// leases. The context of the calls of the store is call, which must end with ctx.
func (r *Releaser) ReleaseAll(ctx, call context.Context, leases []driver.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	b := &bulkRelease{releaser: r, size: 1, perLane: maxCalls, left: len(leases), done: make(chan struct{})}
	if !r.bulk {
		b.lanes = []*releaseLane{{leases: leases}}
	} else {
		b.size, b.perLane = maxBulk, maxBulksPerLane
		b.lanes = byLane(r.store, leases)
	}
	calls := 0
	for _, l := range b.lanes {
		calls += min((len(l.leases)+b.size-1)/b.size, b.perLane)
	}
	b.workers = min(maxCalls, calls)
	for range b.workers {
		go b.work(call)
	}
	_ = Await(ctx, b.done, "") // the caller gets the number of leases that are left
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return nil
	}
	err := b.first
	if err == nil || call.Err() != nil && errors.Is(err, context.Cause(call)) {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("lock: Close: %d of %d locks not released, their TTL ends them: %w", b.left, len(leases), err)
}

// byLane sorts leases by their lanes. It sorts in place, because a client can have a million
// leases.
func byLane(store driver.Store, leases []driver.Lease) []*releaseLane {
	lane := make([]int32, len(leases)) // of each lease, numbered by first appearance
	numbers := make(map[int]int32)
	var sizes []int
	for i := range leases {
		n := store.Lane(leases[i])
		number, known := numbers[n]
		if !known {
			number = int32(len(sizes))
			numbers[n] = number
			sizes = append(sizes, 0)
		}
		lane[i] = number
		sizes[number]++
	}
	starts := make([]int, len(sizes)+1)
	for n, size := range sizes {
		starts[n+1] = starts[n] + size
	}
	next := slices.Clone(starts) // index for the next lease of each lane
	lanes := make([]*releaseLane, len(sizes))
	for n := range lanes {
		for i := next[n]; i < starts[n+1]; i = next[n] {
			to := lane[i]
			if int(to) != n {
				j := next[to]
				leases[i], leases[j] = leases[j], leases[i]
				lane[i], lane[j] = lane[j], lane[i]
			}
			next[to]++
		}
		lanes[n] = &releaseLane{leases: leases[starts[n]:starts[n+1]]}
	}
	return lanes
}

// bulkRelease is the state of one ReleaseAll.
type bulkRelease struct {
	releaser *Releaser
	size     int // leases of one call
	perLane  int // calls for one lane at one time, so that a lane that hangs leaves workers to others

	mu      sync.Mutex // guards all below, and the lanes
	lanes   []*releaseLane
	left    int // not released
	first   error
	workers int
	done    chan struct{} // closed by the last worker
}

// releaseLane holds the leases of one lane.
type releaseLane struct {
	leases []driver.Lease // not in a call yet
	calls  int            // in progress
}

func (b *bulkRelease) work(ctx context.Context) {
	returned := false
	defer func() {
		if !returned {
			go b.work(ctx) // the store called runtime.Goexit: another goroutine takes over
		}
	}()
	for lane, leases := b.next(ctx); lane != nil; lane, leases = b.next(ctx) {
		b.release(ctx, lane, leases)
	}
	returned = true
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workers--; b.workers == 0 {
		close(b.done)
	}
}

// next returns leases for one call. They are from the lane with the fewest calls in progress.
// It returns nil if no lane has leases and may have another call.
func (b *bulkRelease) next(ctx context.Context) (*releaseLane, []driver.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var best *releaseLane
	for _, l := range b.lanes {
		if len(l.leases) > 0 && l.calls < b.perLane && (best == nil || l.calls < best.calls) {
			best = l
		}
	}
	if best == nil || ctx.Err() != nil {
		return nil, nil
	}
	n := min(b.size, len(best.leases))
	leases := best.leases[:n]
	best.leases = best.leases[n:]
	best.calls++
	return best, leases
}

// release releases leases in a few tries and counts the outcome.
func (b *bulkRelease) release(ctx context.Context, lane *releaseLane, leases []driver.Lease) {
	t := &releaseTry{leases: leases}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		lane.calls--
		b.left -= t.released
		if b.first == nil {
			b.first = t.first
		}
	}()
	t.run(ctx, b.releaser)
}

// releaseTry is the outcome of a few tries to release some leases.
type releaseTry struct {
	leases   []driver.Lease // to be released
	released int
	first    error
}

func (t *releaseTry) run(ctx context.Context, r *Releaser) {
	pause := firstPause
	for try := 1; ; try++ {
		t.once(ctx, r)
		if len(t.leases) == 0 || try == maxTries || basic.Sleep(ctx, pause) != nil {
			return
		}
		pause *= 2
	}
}

// once calls the store once, and keeps the leases for which another try may succeed.
func (t *releaseTry) once(ctx context.Context, r *Releaser) {
	out := make([]error, len(t.leases))
	defer func() {
		var again []driver.Lease
		for i, err := range out {
			switch {
			case isReleased(err):
				t.released++
				continue
			case !driver.VerdictOf(err).IsFinal():
				again = append(again, t.leases[i])
			}
			if t.first == nil {
				t.first = err
			}
		}
		t.leases = again
	}()
	r.Release(ctx, t.leases, out)
}
