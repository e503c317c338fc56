// Release and ReleaseAll, and the count of their answers.

package quorumstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Release implements [driver.Store]. After a majority has confirmed the release, it waits
// for the other members up to the same time again. Later releases finish in the
// background.
func (q *Store) Release(ctx context.Context, l driver.Lease) error {
	out := make([]error, 1)
	q.releaseBatch(ctx, []driver.Lease{l}, out)
	return out[0]
}

// ReleaseAll implements [driver.Store] if all members do. It returns once every
// lease is decided, under the same rules as Release.
func (q *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	if !q.Describe().ReleasesAll {
		return q.Base.ReleaseAll(ctx, batch, out)
	}
	q.releaseBatch(ctx, batch, out)
	return nil
}

// releaseBatch releases leases, and writes the error of each to out.
func (q *Store) releaseBatch(ctx context.Context, batch []driver.Lease, out []error) {
	fail := func(err error) {
		for j := range out {
			out[j] = err
		}
	}
	if err := basic.Cause(ctx); err != nil {
		fail(err)
		return
	}
	c := startReleases(q, batch)
	began := time.Now()
	answers, err := callAll(ctx, q, min(c.ttl, maxAttemptTimeout), c.asked, func(ctx context.Context, i int) ([]error, error) {
		return c.parts[i].release(ctx, q.members[i]), nil
	})
	if err != nil {
		fail(err)
		return
	}
	left := len(c.asked)
	for ; left > 0 && c.undecided > 0; left-- {
		a, err := next(ctx, answers)
		if err != nil {
			c.finish(out, err)
			return
		}
		c.add(a)
	}
	c.finish(out, nil)
	awaitRest(ctx, answers, left, time.Since(began))
}

// releases counts the answers of the members that are asked to release leases.
type releases struct {
	quorum    *Store
	grants    []*grant
	counts    []releaseCount
	parts     []*part       // one per member
	asked     []int         // the members that may have copies
	undecided int           // number of undecided leases
	ttl       time.Duration // the longest of all leases
}

// part is the leases of a batch that one member is asked about.
type part struct {
	at     int   // index of the member
	index  []int // of the leases in the batch
	grants []*grant
	leases []driver.Lease // as the member knows them
}

func newParts(members int) []*part {
	parts := make([]*part, members)
	for i := range parts {
		parts[i] = &part{at: i}
	}
	return parts
}

func (p *part) add(j int, g *grant, l driver.Lease) {
	p.index, p.grants, p.leases = append(p.index, j), append(p.grants, g), append(p.leases, l)
}

// startReleases ends the grants of leases and distributes the leases over the members.
func startReleases(q *Store, batch []driver.Lease) *releases {
	n := len(q.members)
	c := &releases{quorum: q, grants: make([]*grant, len(batch)), counts: make([]releaseCount, len(batch)), parts: newParts(n)}
	for j := range batch {
		l, count := &batch[j], &c.counts[j]
		c.ttl = max(c.ttl, l.TTL)
		if l.Unanswered {
			q.addTombstone(l.Owner)
		}
		g := cmp.Or(q.find(l), q.findFailed(l))
		c.grants[j] = g
		*count = releaseCount{need: q.need(&l.Request), members: n, absent: n}
		if g != nil {
			leases, before := g.release(l)
			count.released, count.absent = before, n-before-len(leases)
			for i, lease := range leases {
				c.parts[i].add(j, g, lease)
			}
		}
		if !count.decided() {
			c.undecided++
		}
	}
	for i, p := range c.parts {
		if len(p.leases) > 0 {
			c.asked = append(c.asked, i)
		}
	}
	return c
}

// release asks the member. It does not use the memory of the caller of Release.
func (p *part) release(ctx context.Context, m *member) []error {
	out := make([]error, len(p.leases))
	for k := range out {
		out[k] = storekit.ErrExited // unless the member returns
	}
	defer func() {
		for k, g := range p.grants {
			g.released(p.at, out[k])
		}
	}()
	defer m.calls.Add(-1)
	if m.calls.Add(1) > maxMemberCalls {
		for k := range out {
			out[k] = errBusyMember
		}
		return out
	}
	if len(p.leases) == 1 {
		out[0] = m.store.Release(ctx, p.leases[0])
	} else {
		m.releaser.Release(ctx, p.leases, out)
	}
	return out
}

// add counts the answer of a member.
func (c *releases) add(a answer[[]error]) {
	for k, j := range c.parts[a.at].index {
		err := a.err
		if k < len(a.value) {
			err = a.value[k]
		}
		n := &c.counts[j]
		before := n.decided()
		n.add(answer[struct{}]{at: a.at, err: err})
		if !before && n.decided() {
			c.undecided--
		}
	}
}

// finish writes the errors to out. Undecided leases get err, or the members' errors if
// err is nil because all members have answered.
func (c *releases) finish(out []error, err error) {
	for j := range out {
		n := &c.counts[j]
		switch {
		case n.decided():
			if g := c.grants[j]; g != nil {
				c.quorum.remove(g)
			}
			out[j] = n.result()
		case err != nil:
			out[j] = err
		default:
			out[j] = fmt.Errorf("quorumstore: no majority confirmed the release: %w", n.errs)
		}
	}
}

// releaseCount counts the answers for one lease: to a release, or to another change that a majority must confirm.
type releaseCount struct {
	members, need    int
	released, absent int // members that released it, and members that did not have it
	errs             memberErrors
}

func (c *releaseCount) add(a answer[struct{}]) {
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
	ctx, cancel := context.WithTimeout(ctx, max(others, time.Millisecond))
	defer cancel()
	for range n {
		if _, err := next(ctx, answers); err != nil {
			return
		}
	}
}
