// The Releaser, which releases leases in the background.

package storekit

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	maxPending     = 10_000                 // leases of a Releaser; it leaves others to their TTL
	maxWorkers     = 16                     // goroutines
	maxBatch       = 100                    // leases of one call of ReleaseAll
	releaseTimeout = 2 * time.Second        // for one call
	firstPause     = 100 * time.Millisecond // after a release that failed, doubled each time
	maxPause       = 2 * time.Second
	retrySpacing   = 10 * time.Millisecond // so that at most 100 leases a second are tried again
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
	ctx    context.Context // for the calls of the store
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	queue   []*pending // to be tried now
	all     map[*pending]struct{}
	paused  map[*pending]struct{} // those of all whose timer is running
	spaced  time.Time             // the pauses have places up to here, one each retrySpacing
	workers int
	closed  bool
	drained chan struct{} // closed when closed is set and no worker is left
}

// pending is a lease to be released.
type pending struct {
	lease driver.Lease
	lane  int
	until time.Time     // then the lease has expired
	pause time.Duration // before the next try
	timer *time.Timer   // puts the lease back into the queue after the pause
}

// NewReleaser returns a Releaser, which must be closed.
func NewReleaser(store driver.Store, logger *slog.Logger) *Releaser {
	r := &Releaser{
		store:   store,
		bulk:    store.Describe().ReleasesAll,
		logger:  logger,
		all:     make(map[*pending]struct{}),
		paused:  make(map[*pending]struct{}),
		drained: make(chan struct{}),
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
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
	lane, longest := r.store.Lane(l), r.store.Describe().TTL.Longest(l.TTL)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return "the client is closed"
	case len(r.all) >= maxPending:
		return "too many are waiting"
	}
	p := &pending{lease: l, lane: lane, until: time.Now().Add(longest), pause: firstPause}
	r.all[p] = struct{}{}
	r.enqueue(p)
	return ""
}

// enqueue appends p to the queue and makes sure that a worker takes it. The caller holds mu.
func (r *Releaser) enqueue(p *pending) {
	r.queue = append(r.queue, p)
	if r.workers < maxWorkers {
		r.workers++
		go r.work()
	}
}

// Len returns the number of leases that are not released yet.
func (r *Releaser) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func (r *Releaser) work() {
	returned := false
	defer func() {
		if !returned {
			go r.work() // the store called runtime.Goexit: another goroutine takes over
		}
	}()
	for batch := r.next(); len(batch) > 0; batch = r.next() {
		r.try(batch)
	}
	returned = true
}

// try calls the store once. Leases that fail are tried again later.
func (r *Releaser) try(batch []*pending) {
	leases, out := make([]driver.Lease, len(batch)), make([]error, len(batch))
	for i, p := range batch {
		leases[i] = p.lease
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, p := range batch {
			r.finish(p, driver.VerdictOf(out[i]))
		}
	}()
	ctx, cancel := context.WithTimeout(r.ctx, releaseTimeout)
	defer cancel()
	r.Release(ctx, leases, out)
}

// next removes leases of one lane from the queue. If the queue is empty, the worker must
// return, and next has subtracted it from workers.
func (r *Releaser) next() []*pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.queue) == 0 {
		r.queue = nil // frees the array; Close finds the leases in all
		r.workers--
		if r.closed && r.workers == 0 {
			close(r.drained)
		}
		return nil
	}
	n := 1
	for r.bulk && n < min(len(r.queue), maxBatch) && r.queue[n].lane == r.queue[0].lane {
		n++
	}
	batch := slices.Clone(r.queue[:n])
	clear(r.queue[:n])
	r.queue = r.queue[n:]
	return batch
}

// finish removes a lease that is released, refused or expired, and pauses any other. The caller holds mu.
func (r *Releaser) finish(p *pending, v driver.Verdict) {
	left := time.Until(p.until)
	switch {
	case v.IsAnswer() || left <= 0:
		delete(r.all, p)
	case !r.closed:
		behind := max(time.Until(r.spaced), 0)
		r.spaced = time.Now().Add(behind + retrySpacing)
		r.paused[p] = struct{}{}
		p.timer = time.AfterFunc(min(p.pause+behind, left), func() { r.endPause(p) })
		p.pause = min(2*p.pause, maxPause)
	}
	if !v.IsAnswer() {
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

// endPause tries a lease again, unless it has expired.
func (r *Releaser) endPause(p *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch _, paused := r.paused[p]; {
	case !paused: // resume was faster
	case time.Now().Before(p.until):
		r.resume(p)
	case !r.closed: // otherwise Close returns it
		delete(r.paused, p)
		delete(r.all, p)
	}
}

// resume puts a lease that is paused back into the queue. The caller holds mu.
func (r *Releaser) resume(p *pending) {
	delete(r.paused, p)
	if !r.closed {
		r.enqueue(p)
	}
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

// Close cancels the releases in progress, waits for them until ctx ends, and returns the leases
// that are left.
func (r *Releaser) Close(ctx context.Context) ([]driver.Lease, error) {
	r.mu.Lock()
	r.closed = true
	if r.workers == 0 {
		close(r.drained)
	}
	r.mu.Unlock()
	r.cancel()
	err := Await(ctx, r.drained, "a release")
	r.mu.Lock()
	defer r.mu.Unlock()
	var left []driver.Lease
	for p := range r.all {
		if p.timer != nil {
			p.timer.Stop()
		}
		left = append(left, p.lease)
	}
	clear(r.all)
	return left, err
}
