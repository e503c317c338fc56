// The store of a client, which records its requests and answers.

package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// recorder records the requests to the store of a process, and the answers, in the history.
type recorder struct{ process *Process }

// await returns when the process is not paused. The owner decides the order in which the
// callers of a process continue.
func (r recorder) await(owner string) {
	r.process.Pauser.Await(simrand.Hash(r.process.World.Names.Of(owner)))
}

func (r recorder) around(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	switch {
	case c.Name == "acquire", c.Name == "wait":
		return r.acquire(ctx, c, next)
	case c.Name == "renew" && c.Outcomes != nil:
		return r.renew(ctx, c, next)
	case c.Errors != nil:
		return r.releaseAll(ctx, c, next)
	case c.Name == "release":
		return r.release(ctx, c, next)
	}
	return next(ctx)
}

func (r recorder) acquire(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	w, owner, sent := r.process.World, c.Request.Owner, time.Now()
	w.Names.Add(r.process.ID, owner)
	w.Mu.Lock()
	w.Owners[owner] = r.process
	w.Mu.Unlock()
	if c.Name == "wait" {
		w.waits(ctx)
	}
	err := next(ctx)
	r.await(owner)
	if err == nil {
		if !c.Granted.Sent.IsZero() {
			sent = c.Granted.Sent
		}
		w.confirmed(ctx, c.Granted, sent)
	}
	return err
}

func (r recorder) renew(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	w, sent, first := r.process.World, time.Now(), c.Leases[0].Owner
	if !w.Plan.Exact {
		r.await(first)
	}
	grants := w.renewing(ctx, r.process, c.Leases, sent)
	err := next(ctx)
	r.await(first)
	w.renewed(ctx, r.process, grants, c.Outcomes, sent)
	return err
}

func (r recorder) release(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	w := r.process.World
	w.releasing(r.process, c.Leases[0])
	err := next(ctx)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	r.process.released(c.Leases[0], err)
	return err
}

// released records the answer to a release. The caller holds World.Mu.
func (p *Process) released(l driver.Lease, err error) {
	p.unreleased[l.Owner] = err != nil && !errors.Is(err, lock.ErrNotHeld)
	if err == nil {
		p.World.confirmedEnd(p, l)
	}
}

// releaseAll sorts the leases, because the fate of the message depends on the first.
func (r recorder) releaseAll(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	batch, out, w := c.Leases, c.Errors, r.process.World
	order := make([]int, len(batch))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(w.Names.Of(batch[a].Owner), w.Names.Of(batch[b].Owner))
	})
	c.Leases, c.Errors = make([]driver.Lease, len(batch)), make([]error, len(batch))
	for i, at := range order {
		c.Leases[i] = batch[at]
		w.releasing(r.process, batch[at])
	}
	if err := next(ctx); err != nil {
		return err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for i, at := range order {
		out[at] = c.Errors[i]
		r.process.released(batch[at], out[at])
	}
	return nil
}
