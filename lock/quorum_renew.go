package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

var _ renewal.Laner[Lease] = (*quorum)(nil)

// Lane implements [renewal.Laner]: leases are of one lane if the same members have
// them, in the same lanes of theirs. So those that a dead member is needed for hold
// up no others.
func (q *quorum) Lane(l Lease) int {
	g := q.find(&l)
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	lane := 0
	for i := range g.copies {
		part := 0
		if c := &g.copies[i]; c.state == present {
			part = 1
			if laner, ok := q.members[i].store.(renewal.Laner[Lease]); ok {
				part += laner.Lane(c.lease)
			}
		}
		lane = lane*31 + part
	}
	return lane
}

// Renew implements [renewal.Renewer]. It returns as soon as every lease of the batch
// is decided. Members that are slower go on with copies of their own.
func (q *quorum) Renew(ctx context.Context, batch []Lease, out []renewal.Outcome) error {
	if err := endOf(ctx); err != nil {
		return err
	}
	if len(batch) == 0 {
		return nil
	}
	sent := time.Now()
	t := newTally(q, batch)
	answers, err := ask(ctx, q, t.bound(ctx, sent), q.all(), func(ctx context.Context, i int) (*memberBatch, error) {
		p := t.parts[i]
		return p, p.renew(ctx, q.members[i])
	})
	if err != nil {
		return err
	}
	for left := len(q.members); left > 0 && t.open > 0; left-- {
		select {
		case a := <-answers:
			t.add(a)
		case <-ctx.Done():
			t.errs = append(t.errs, context.Cause(ctx))
			return t.settle(out, sent)
		}
	}
	return t.settle(out, sent)
}

// tally counts the answers to a Renew.
type tally struct {
	votes []votes
	parts []*memberBatch // one for each member
	open  int            // leases that are not decided
	ttl   time.Duration
	errs  memberErrors
}

// votes are those for one lease.
type votes struct {
	grant         *grant
	ttl           time.Duration
	need, against int // how many renew it, how many refusals lose it
	renewed, lost int
}

func (v *votes) outcome() renewal.Outcome {
	switch {
	case v.renewed >= v.need:
		return renewal.Renewed
	case v.lost >= v.against:
		return renewal.Lost
	}
	return renewal.Unknown
}

// memberBatch is what one member is asked: its leases, and where in the batch they stand.
type memberBatch struct {
	at     int // of the member
	index  []int
	grants []*grant
	leases []Lease
	out    []renewal.Outcome
}

// newTally notes who is asked for what. A member without the lease counts as one
// that lost it: it cannot renew it.
func newTally(q *quorum, batch []Lease) *tally {
	n := len(q.members)
	t := &tally{votes: make([]votes, len(batch)), parts: make([]*memberBatch, n), open: len(batch)}
	for i := range t.parts {
		t.parts[i] = &memberBatch{at: i}
	}
	for j := range batch {
		l, v := &batch[j], &t.votes[j]
		need := q.need(&l.Request)
		*v = votes{grant: q.find(l), ttl: l.TTL, need: need, against: n - need + 1}
		t.ttl = max(t.ttl, l.TTL)
		if v.grant == nil {
			v.lost = n
		} else {
			v.grant.ballot(j, l, v, t.parts)
		}
		if v.outcome() != renewal.Unknown {
			t.open--
		}
	}
	return t
}

// ballot adds the copies of a grant to what the members are asked.
func (g *grant) ballot(j int, l *Lease, v *votes, parts []*memberBatch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		c := &g.copies[i]
		if c.state != present {
			v.lost++
			continue
		}
		parts[i].index = append(parts[i].index, j)
		parts[i].grants = append(parts[i].grants, g)
		parts[i].leases = append(parts[i].leases, c.of(l))
	}
}

// bound is how long members may take: as long as ctx, or else a part of the TTL.
func (t *tally) bound(ctx context.Context, now time.Time) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(now)
	}
	return t.ttl / 3
}

// renew asks the member. It touches nothing that belongs to the caller of Renew.
func (p *memberBatch) renew(ctx context.Context, m *member) error {
	p.out = make([]renewal.Outcome, len(p.leases))
	if len(p.leases) == 0 {
		return nil
	}
	err := m.renew(ctx, p.leases, p.out)
	for k, g := range p.grants {
		g.renewed(p.at, p.out[k])
	}
	return err
}

// add counts the answer of a member.
func (t *tally) add(a answer[*memberBatch]) {
	t.errs.add(a.at, a.err)
	if a.value == nil {
		return
	}
	for k, j := range a.value.index {
		v := &t.votes[j]
		before := v.outcome()
		switch a.value.out[k] {
		case renewal.Renewed:
			v.renewed++
		case renewal.Lost:
			v.lost++
		}
		if before == renewal.Unknown && v.outcome() != renewal.Unknown {
			t.open--
		}
	}
}

// settle tells the outcomes.
func (t *tally) settle(out []renewal.Outcome, sent time.Time) error {
	for j := range t.votes {
		v := &t.votes[j]
		out[j] = v.outcome()
		if out[j] == renewal.Renewed {
			v.grant.extend(sent.Add(v.ttl))
		}
	}
	switch {
	case t.open == 0:
		return nil
	case len(t.errs) == 0:
		return fmt.Errorf("lock: quorum: %d of %d leases have no majority", t.open, len(t.votes))
	default:
		return fmt.Errorf("lock: quorum: %d of %d leases have no majority: %w", t.open, len(t.votes), t.errs)
	}
}
