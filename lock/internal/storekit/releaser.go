// The Releaser, which releases leases in the background and at Close.

package storekit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPending     = 10_000                 // leases of a Releaser; it leaves others to their TTL
	maxWorkers     = 16                     // goroutines before Close
	maxCalls       = 64                     // goroutines at Close
	maxPerLane     = 4                      // calls of ReleaseAll for one lane at one time, so that a lane that hangs leaves workers to others
	maxBatch       = 100                    // leases of one call of ReleaseAll before Close
	maxBulk        = 1000                   // leases of one call of ReleaseAll at Close
	maxTries       = 3                      // for one lease at Close
	releaseTimeout = 2 * time.Second        // for one call before Close
	firstPause     = 100 * time.Millisecond // after a release that failed, doubled each time
	maxPause       = 2 * time.Second
	retrySpacing   = 10 * time.Millisecond // so that at most 100 leases a second are tried again before Close
)

// Releaser releases leases in the background. It tries each lease until the store confirms the
// release, or until the lease has expired: see [driver.TTLLimits].Longest.
//
// A worker tries a lease once and continues with the next, so that a key that fails delays no
// other. Workers exist only while there are leases to try. While all workers are busy, leases
// queue, and a store that can release many leases in one call gets those of one lane together.
//
// A server that fails is not asked more often the more leases are left. Each release that succeeds ends the
// pauses of two more.
type Releaser struct {
	store  driver.Store
	bulk   bool // the store releases many leases in one call
	logger *slog.Logger
	ctx    context.Context // for the calls of the store before Close
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	lanes   map[int]*lane
	all     map[*pending]struct{}
	paused  map[*pending]struct{} // those of all whose timer is running
	spaced  time.Time             // the pauses have places up to here, one each retrySpacing
	workers int
	call    context.Context // for the calls of the store; changed by Close, as size and most are
	size    int             // leases of one call
	most    int             // workers
	closed  bool
	refused int           // releases at Close, other than those of leases in all
	first   error         // of the releases at Close
	drained chan struct{} // closed by settle
}

// lane holds the leases of one lane of the store.
type lane struct {
	queue []*pending // to be tried now
	calls int        // in progress
}

// pending is one lease to be released, or at Close up to maxBulk of one lane.
type pending struct {
	leases []driver.Lease
	lane   int
	until  time.Time     // then the lease has expired
	pause  time.Duration // before the next try
	timer  *time.Timer   // puts it back into the queue after the pause
	tries  int           // at Close
}

// NewReleaser returns a Releaser, which must be closed.
func NewReleaser(store driver.Store, logger *slog.Logger) *Releaser {
	r := &Releaser{
		store:   store,
		bulk:    store.Describe().ReleasesAll,
		logger:  logger,
		lanes:   make(map[int]*lane),
		all:     make(map[*pending]struct{}),
		paused:  make(map[*pending]struct{}),
		size:    1,
		most:    maxWorkers,
		drained: make(chan struct{}),
	}
	if r.bulk {
		r.size = maxBatch
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.call = r.ctx
	return r
}

// Add takes over a lease without waiting for the store. It logs a lease that it cannot take.
func (r *Releaser) Add(l driver.Lease) {
	if why := r.TryAdd(l); why != "" {
		r.logger.Warn("lock: a lock cannot be released and is left to its TTL",
			slog.String("key", l.Key), slog.Uint64("token", l.Token), slog.String("reason", why))
	}
}

// TryAdd is Add without the log. It returns the reason why it has not taken the lease.
func (r *Releaser) TryAdd(l driver.Lease) (why string) {
	p := &pending{leases: []driver.Lease{l}, lane: r.store.Lane(l), until: time.Now().Add(r.store.Describe().TTL.Longest(l.TTL)), pause: firstPause}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return "the client is closed"
	case len(r.all) >= maxPending:
		return "too many are waiting"
	}
	r.enqueue(p)
	return ""
}

// enqueue appends p to the queue of its lane and makes sure that a worker takes it. The caller holds mu.
func (r *Releaser) enqueue(p *pending) {
	r.all[p] = struct{}{}
	l := r.lanes[p.lane]
	if l == nil {
		l = new(lane)
		r.lanes[p.lane] = l
	}
	l.queue = append(l.queue, p)
	if r.workers < r.most {
		r.workers++
		go r.work()
	}
}

// Len returns the number of leases that are not released yet. It returns 0 after Close was called.
func (r *Releaser) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	return len(r.all)
}

func (r *Releaser) work() {
	returned := false
	defer func() {
		if !returned {
			go r.work() // the store called runtime.Goexit: another goroutine takes over
		}
	}()
	for ctx, batch := r.next(); len(batch) > 0; ctx, batch = r.next() {
		r.try(ctx, batch)
	}
	returned = true
}

// next removes leases for one call from the lane with the fewest calls in progress. If no lane has
// leases and may have another call, the worker must return, and next has subtracted it from workers.
func (r *Releaser) next() (context.Context, []*pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *lane
	for _, l := range r.lanes {
		if len(l.queue) > 0 && (l.calls < maxPerLane || !r.bulk) && (best == nil || l.calls < best.calls) {
			best = l
		}
	}
	if best == nil || r.call.Err() != nil {
		r.workers--
		r.settle()
		return nil, nil
	}
	n := 1
	for leases := len(best.queue[0].leases); n < len(best.queue); n++ {
		if leases += len(best.queue[n].leases); leases > r.size {
			break
		}
	}
	batch := slices.Clone(best.queue[:n])
	clear(best.queue[:n])
	best.queue = best.queue[n:]
	best.calls++
	return r.call, batch
}

// settle closes drained if Close has nothing to wait for. The caller holds mu.
func (r *Releaser) settle() {
	if !r.closed || r.workers > 0 || len(r.paused) > 0 && r.call.Err() == nil {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

// try calls the store once. Leases that fail are tried again later.
func (r *Releaser) try(call context.Context, batch []*pending) {
	var leases []driver.Lease
	for _, p := range batch {
		leases = append(leases, p.leases...)
	}
	out := make([]error, len(leases))
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		l := r.lanes[batch[0].lane]
		l.calls--
		for _, p := range batch {
			n := len(p.leases)
			r.finish(call, p, out[:n])
			out = out[n:]
		}
		if len(l.queue) == 0 && l.calls == 0 {
			delete(r.lanes, batch[0].lane)
		}
	}()
	bounded := call
	if call == r.ctx {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(call, releaseTimeout)
		defer cancel()
	}
	r.Release(bounded, leases, out)
}

// finish takes the outcomes of a call for p. The caller holds mu.
func (r *Releaser) finish(call context.Context, p *pending, out []error) {
	var again []driver.Lease
	for i, err := range out {
		v := driver.VerdictOf(err)
		if !v.IsAnswer() {
			again = append(again, p.leases[i])
		}
		if r.closed && call == r.call && v != driver.Done && v != driver.NotHeld {
			if r.first == nil {
				r.first = fmt.Errorf("%s: %w", basic.Quote(p.leases[i].Key), err)
			}
			if v.IsAnswer() {
				r.refused++
			}
		}
	}
	answered := len(again) < len(p.leases)
	p.leases = again
	switch left := time.Until(p.until); {
	case len(again) == 0:
		delete(r.all, p)
	case !r.closed && left > 0:
		behind := max(time.Until(r.spaced), 0)
		r.spaced = time.Now().Add(behind + retrySpacing)
		r.wait(p, min(p.pause+behind, left))
	case !r.closed:
		delete(r.all, p)
	case call != r.call: // Close has interrupted it
		r.enqueue(p)
	default:
		if p.tries++; p.tries < maxTries && call.Err() == nil { // otherwise it stays in all
			r.wait(p, p.pause)
		}
	}
	if !answered || r.closed {
		return
	}
	more := 2
	for p := range r.paused {
		if more--; more < 0 {
			break
		}
		p.timer.Stop()
		r.spaced = r.spaced.Add(-retrySpacing)
		r.resume(p)
	}
}

// wait pauses p. The caller holds mu.
func (r *Releaser) wait(p *pending, d time.Duration) {
	r.paused[p] = struct{}{}
	p.timer = time.AfterFunc(d, func() { r.endPause(p) })
	p.pause = min(2*p.pause, maxPause)
}

// endPause tries a lease again, unless it has expired.
func (r *Releaser) endPause(p *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch _, paused := r.paused[p]; {
	case !paused: // resume was faster
	case r.closed || time.Now().Before(p.until):
		r.resume(p)
	default:
		delete(r.paused, p)
		delete(r.all, p)
	}
}

// resume puts a lease that is paused back into the queue. The caller holds mu.
func (r *Releaser) resume(p *pending) {
	delete(r.paused, p)
	r.enqueue(p)
}

// Release releases leases and sets out to the outcome of each.
func (r *Releaser) Release(ctx context.Context, batch []driver.Lease, out []error) {
	err := ErrExited
	defer func() {
		if err != nil {
			for i := range out {
				out[i] = err
			}
		}
	}()
	if r.bulk {
		err = r.store.ReleaseAll(ctx, batch, out)
		return
	}
	for i := range batch {
		out[i] = r.store.Release(ctx, batch[i])
	}
	err = nil
}

// Close interrupts the calls of the store and takes over more leases. It returns when each lease is
// released or has failed maxTries times from now on, or when ctx ends. The context of the calls is call, which must
// end with ctx; if it has ended, Close only waits for the calls that it has interrupted. Close may change
// the order of the leases. The error counts the leases that were not released.
func (r *Releaser) Close(ctx, call context.Context, leases []driver.Lease) error {
	lanes := make([]int, len(leases))
	for i := range leases {
		lanes[i] = r.store.Lane(leases[i])
	}
	sort.Sort(byLane{leases, lanes})
	r.mu.Lock()
	r.closed, r.call, r.most = true, call, maxCalls
	if r.bulk {
		r.size = maxBulk
	}
	total := len(leases)
	for p := range r.all {
		p.pause = firstPause
		total += len(p.leases)
	}
	for p := range r.paused {
		p.timer.Stop()
		r.resume(p)
	}
	for from, to := 0, 0; from < len(leases); from = to {
		for to < min(from+r.size, len(leases)) && lanes[to] == lanes[from] {
			to++
		}
		r.enqueue(&pending{leases: leases[from:to], lane: lanes[from], pause: firstPause})
	}
	r.settle()
	r.mu.Unlock()
	r.cancel()
	_ = basic.Await(ctx, r.drained) // the caller gets the number of leases that are left

	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.refused
	for p := range r.all {
		left += len(p.leases)
	}
	for p := range r.paused {
		p.timer.Stop()
	}
	if left == 0 {
		return nil
	}
	err := r.first
	if err == nil || call.Err() != nil && errors.Is(err, context.Cause(call)) {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("lock: Close: %d of %d locks not released, their TTL ends them: %w", left, total, err)
}

// byLane sorts leases by their lanes, in place, because a client can have a million leases.
type byLane struct {
	leases []driver.Lease
	lanes  []int // of each lease
}

func (b byLane) Len() int           { return len(b.lanes) }
func (b byLane) Less(i, j int) bool { return b.lanes[i] < b.lanes[j] }
func (b byLane) Swap(i, j int) {
	b.leases[i], b.leases[j] = b.leases[j], b.leases[i]
	b.lanes[i], b.lanes[j] = b.lanes[j], b.lanes[i]
}
