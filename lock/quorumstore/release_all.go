// ReleaseAll.

package quorumstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// ReleaseAll implements [driver.Store] if all members do. It returns once every
// lease is decided, under the same rules as Release.
func (q *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	if !q.Describe().ReleasesAll {
		return q.Base.ReleaseAll(ctx, batch, out)
	}
	if len(batch) == 0 {
		return nil
	}
	c := newBulkRelease(q, batch, out)
	if err := basic.Cause(ctx); err != nil {
		return c.fail(err)
	}
	c.start()
	began := time.Now()
	answers, err := callAll(ctx, q, min(c.ttl, maxAttemptTimeout), q.all(), func(ctx context.Context, i int) ([]error, error) {
		return c.parts[i].release(ctx, q.members[i])
	})
	if err != nil {
		return c.fail(err)
	}
	answered := 0
	for ; answered < len(q.members) && c.undecided > 0; answered++ {
		select {
		case a := <-answers:
			c.add(a)
		case <-ctx.Done():
			c.finish(context.Cause(ctx))
			return nil
		}
	}
	c.finish(nil)
	awaitRest(ctx, answers, len(q.members)-answered, time.Since(began))
	return nil
}

// bulkRelease counts the answers to a ReleaseAll.
type bulkRelease struct {
	q         *Store
	batch     []driver.Lease
	out       []error
	grants    []*grant
	counts    []releaseCount
	parts     []*memberReleases // one per member
	undecided int               // number of undecided leases
	ttl       time.Duration     // longest TTL of the batch
}

// memberReleases is the part of a batch that one member releases.
type memberReleases struct {
	at     int // index of the member
	index  []int
	grants []*grant
	leases []driver.Lease
}

func newBulkRelease(q *Store, batch []driver.Lease, out []error) *bulkRelease {
	c := &bulkRelease{q: q, batch: batch, out: out, grants: make([]*grant, len(batch)), counts: make([]releaseCount, len(batch))}
	for i := range q.members {
		c.parts = append(c.parts, &memberReleases{at: i})
	}
	return c
}

// fail sets the error of all leases.
func (c *bulkRelease) fail(err error) error {
	for j := range c.out {
		c.out[j] = err
	}
	return nil
}

// start ends the grants and distributes the leases over the members.
func (c *bulkRelease) start() {
	for j := range c.batch {
		l := &c.batch[j]
		c.ttl = max(c.ttl, l.TTL)
		if l.Unanswered {
			c.q.addTombstone(l.Owner)
		}
		g := cmp.Or(c.q.find(l), c.q.findFailed(l))
		c.grants[j] = g
		n := &c.counts[j]
		*n = releaseCount{need: c.q.need(&l.Request), members: len(c.parts), absent: len(c.parts)}
		if g != nil {
			leases, before := g.release(l)
			n.released, n.absent = before, len(c.parts)-before-len(leases)
			for i, lease := range leases {
				p := c.parts[i]
				p.index, p.grants, p.leases = append(p.index, j), append(p.grants, g), append(p.leases, lease)
			}
		}
		if !n.decided() {
			c.undecided++
		}
	}
}

// release sends the leases to the member. It does not use the memory of ReleaseAll's
// caller.
func (p *memberReleases) release(ctx context.Context, m *member) ([]error, error) {
	out := make([]error, len(p.leases))
	if len(p.leases) == 0 {
		return out, nil
	}
	defer func() {
		for k, g := range p.grants {
			g.released(p.at, out[k])
		}
	}()
	m.releaseAll(ctx, p.leases, out)
	return out, nil
}

func (m *member) releaseAll(ctx context.Context, batch []driver.Lease, out []error) {
	defer m.calls.Add(-1)
	if m.calls.Add(1) > maxMemberCalls {
		for i := range out {
			out[i] = errBusyMember
		}
		return
	}
	m.releaser.Release(ctx, batch, out)
}

// add counts the answer of a member.
func (c *bulkRelease) add(a answer[[]error]) {
	p := c.parts[a.at]
	for k, j := range p.index {
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
func (c *bulkRelease) finish(err error) {
	for j := range c.out {
		n := &c.counts[j]
		switch {
		case n.decided():
			if g := c.grants[j]; g != nil {
				c.q.remove(g)
			}
			c.out[j] = n.result()
		case err != nil:
			c.out[j] = err
		default:
			c.out[j] = fmt.Errorf("quorumstore: no majority confirmed the release: %w", n.errs)
		}
	}
}
