// Release, and the count of its answers.

package quorumstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Release implements [driver.Store]. After a majority has confirmed the release, it waits
// for the other members up to the same time again. Later releases finish in the
// background.
func (q *Store) Release(ctx context.Context, l driver.Lease) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	if l.Unanswered {
		q.addTombstone(l.Owner)
	}
	g := cmp.Or(q.find(&l), q.findFailed(&l))
	if g == nil {
		return driver.ErrNotHeld
	}
	leases, before := g.release(&l)
	at := slices.Collect(maps.Keys(leases))
	began := time.Now()
	answers, err := callAll(ctx, q, min(l.TTL, maxAttemptTimeout), at, func(ctx context.Context, i int) (struct{}, error) {
		err := q.members[i].release(ctx, leases[i])
		g.released(i, err)
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	c := releaseCount{need: q.need(&l.Request), members: len(q.members), released: before, absent: len(q.members) - before - len(at)}
	for left := len(at); left > 0 && !c.decided(); left-- {
		select {
		case a := <-answers:
			c.add(a)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !c.decided() {
		return fmt.Errorf("quorumstore: no majority confirmed the release: %w", c.errs)
	}
	q.remove(g)
	awaitRest(ctx, answers, len(at)-c.answered, time.Since(began))
	return c.result()
}

// releaseCount counts the answers to a Release.
type releaseCount struct {
	members, need    int
	answered         int
	released, absent int // members that released it, and members that did not have it
	errs             memberErrors
}

func (c *releaseCount) add(a answer[struct{}]) {
	c.answered++
	switch {
	case a.err == nil:
		c.released++
	case errors.Is(a.err, driver.ErrNotHeld):
		c.absent++
	default:
		c.errs.add(a.at, a.err)
	}
}

func (c *releaseCount) decided() bool { return c.released >= c.need || c.notHeld() }

// notHeld reports whether no majority had the lease.
func (c *releaseCount) notHeld() bool { return c.absent > c.members-c.need }

func (c *releaseCount) result() error {
	if c.notHeld() {
		return driver.ErrNotHeld
	}
	return nil
}

// awaitRest waits for n more answers, at most as long as the earlier answers took and at
// least 1 ms.
func awaitRest[A any](ctx context.Context, answers <-chan answer[A], n int, others time.Duration) {
	timer := time.NewTimer(max(others, time.Millisecond))
	defer timer.Stop()
	for range n {
		select {
		case <-answers:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
