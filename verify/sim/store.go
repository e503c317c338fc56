// This file is about the store of a client, which records its requests and answers.

package sim

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// record returns a store that forwards calls to the store of a process, and records requests
// and answers in the history. It has the same optional methods as that store.
func record(s driver.Store, p *Process) driver.Store {
	r := recorder{s, p}
	_, waits := s.(driver.Waiter)
	_, inspects := s.(driver.Inspector)
	switch {
	case inspects:
		return fullRecorder{waitingRecorder{r}}
	case waits:
		return waitingRecorder{r}
	}
	return r
}

type recorder struct {
	driver.Store
	process *Process
}

// await returns when the process is not paused. The owner decides the order in which the
// callers of a process continue.
func (r recorder) await(owner string) {
	r.process.Pauser.Await(simrand.Hash(r.process.World.Serial(owner)))
}

// Describe implements driver.Describer.
func (r recorder) Describe() driver.Description { return driver.Describe(r.Store) }

// Acquire implements driver.Store.
func (r recorder) Acquire(ctx context.Context, request driver.Request) (driver.Lease, error) {
	r.process.owns(request.Owner)
	sent := time.Now()
	lease, err := r.Store.Acquire(ctx, request)
	r.await(request.Owner)
	if err == nil {
		if !lease.Sent.IsZero() {
			sent = lease.Sent
		}
		r.process.World.confirmed(ctx, lease, sent)
	}
	return lease, err
}

// Renew implements renewal.Renewer.
func (r recorder) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	w, sent := r.process.World, time.Now()
	if !w.Plan.Exact {
		r.await(batch[0].Owner)
	}
	grants := w.renewing(ctx, r.process, batch, sent)
	err := r.Store.Renew(ctx, batch, out)
	r.await(batch[0].Owner)
	w.renewed(ctx, r.process, grants, out, sent)
	return err
}

// Release implements driver.Store.
func (r recorder) Release(ctx context.Context, l driver.Lease) error {
	w := r.process.World
	w.releasing(r.process, l)
	err := r.Store.Release(ctx, l)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	r.process.released(l, err)
	return err
}

// released records the answer to a release. The caller holds World.Mu.
func (p *Process) released(l driver.Lease, err error) {
	p.unreleased[l.Owner] = err != nil && !errors.Is(err, lock.ErrNotHeld)
	if err == nil {
		p.World.confirmedEnd(p, l)
	}
}

// Close implements io.Closer.
func (r recorder) Close() error { return r.Store.(io.Closer).Close() }

type waitingRecorder struct{ recorder }

// Wait implements driver.Waiter.
func (r waitingRecorder) Wait(ctx context.Context, request driver.Request, queued func()) (driver.Lease, error) {
	w := r.process.World
	r.process.owns(request.Owner)
	w.waits(ctx)
	waiter, ok := r.Store.(driver.Waiter)
	if !ok {
		return driver.Lease{}, errors.ErrUnsupported
	}
	lease, err := waiter.Wait(ctx, request, queued)
	r.await(request.Owner)
	if err == nil {
		w.confirmed(ctx, lease, lease.Sent)
	}
	return lease, err
}

type fullRecorder struct{ waitingRecorder }

var (
	_ driver.Inspector            = fullRecorder{}
	_ driver.BulkReleaser         = fullRecorder{}
	_ renewal.Laner[driver.Lease] = fullRecorder{}
)

// Inspect implements driver.Inspector.
func (r fullRecorder) Inspect(ctx context.Context, key string) (driver.Info, error) {
	return r.Store.(driver.Inspector).Inspect(ctx, key)
}

// ForceRelease implements driver.Inspector.
func (r fullRecorder) ForceRelease(ctx context.Context, key string) error {
	return r.Store.(driver.Inspector).ForceRelease(ctx, key)
}

// Lane implements renewal.Laner.
func (r fullRecorder) Lane(l driver.Lease) int {
	if laner, ok := r.Store.(renewal.Laner[driver.Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

// Shutdown closes the store within a context, if the store can do that.
func (r fullRecorder) Shutdown(ctx context.Context) error {
	if s, ok := r.Store.(interface{ Shutdown(context.Context) error }); ok {
		return s.Shutdown(ctx)
	}
	return r.Close()
}

// ReleaseAll implements driver.BulkReleaser. It sorts the leases, because the fate of the
// message depends on the first.
func (r fullRecorder) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	bulk, ok := r.Store.(driver.BulkReleaser)
	if !ok {
		return errors.ErrUnsupported
	}
	if len(batch) == 0 {
		return bulk.ReleaseAll(ctx, nil, nil)
	}
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	w := r.process.World
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(w.Serial(batch[a].Owner), w.Serial(batch[b].Owner))
	})
	leases, answers := make([]driver.Lease, len(batch)), make([]error, len(batch))
	for i, at := range order {
		leases[i] = batch[at]
		w.releasing(r.process, leases[i])
	}
	if err := bulk.ReleaseAll(ctx, leases, answers); err != nil {
		return err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for i, at := range order {
		out[at] = answers[i]
		r.process.released(batch[at], answers[i])
	}
	return nil
}
