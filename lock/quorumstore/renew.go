// Renew, its lanes, and the count of its answers.

package quorumstore

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Lane implements [driver.Store]. Two leases share a lane if the same members have
// copies, and each member assigns the copies to one lane. So a dead member delays only
// the leases that depend on it.
func (q *Store) Lane(l driver.Lease) int {
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
			part = 1 + q.members[i].store.Lane(c.lease)
		}
		lane = lane*31 + part
	}
	return lane
}

// Renew implements [renewal.Renewer]. It returns once every lease of the batch is
// decided. The calls of slower members continue with copies of the batch.
//
// The outcome of a lost lease is LostTaken if more members answer that than LostMissing. Members that
// did not answer in time, answered Lost, or had no copy, do not count.
func (q *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	if len(batch) == 0 {
		return nil
	}
	sent := time.Now()
	t := newTally(q, batch)
	answers, err := callAll(ctx, q, t.timeout(ctx, sent), q.all(), func(ctx context.Context, i int) ([]renewal.Outcome, error) {
		return t.parts[i].renew(ctx, q.members[i])
	})
	if err != nil {
		return err
	}
	for left := len(q.members); left > 0 && t.undecided > 0; left-- {
		a, err := next(ctx, answers)
		if err != nil {
			t.errs = append(t.errs, err)
			break
		}
		t.add(a)
	}
	return t.finish(out, sent)
}

// tally counts the answers to a Renew.
type tally struct {
	votes     []votes
	parts     []*part // one for each member
	undecided int     // number of undecided leases
	ttl       time.Duration
	errs      memberErrors
}

// votes counts the answers for one lease.
type votes struct {
	grant         *grant
	ttl           time.Duration
	need, lostAt  int // numbers of confirmations that renew it and of refusals that lose it
	renewed, lost int
	losses        [renewal.LostTaken + 1]int // numbers of members by the outcome that is their refusal
}

func (v *votes) outcome() renewal.Outcome {
	switch {
	case v.renewed >= v.need:
		return renewal.Renewed
	case v.lost < v.lostAt:
		return renewal.Unknown
	}
	missing, taken := v.losses[renewal.LostMissing], v.losses[renewal.LostTaken]
	switch {
	case taken > missing:
		return renewal.LostTaken
	case missing > 0: // before another owner could take the lease, so this wins a tie
		return renewal.LostMissing
	}
	return renewal.Lost
}

// newTally distributes the leases over the members. A member without a copy counts as a
// refusal, because it cannot renew the lease.
func newTally(q *Store, batch []driver.Lease) *tally {
	n := len(q.members)
	t := &tally{votes: make([]votes, len(batch)), parts: newParts(n), undecided: len(batch)}
	for j := range batch {
		l, v := &batch[j], &t.votes[j]
		need := q.need(&l.Request)
		*v = votes{grant: q.find(l), ttl: l.TTL, need: need, lostAt: n - need + 1}
		t.ttl = max(t.ttl, l.TTL)
		if v.grant == nil {
			v.lost = n
		} else {
			v.grant.addVotes(j, l, v, t.parts)
		}
		if v.outcome() != renewal.Unknown {
			t.undecided--
		}
	}
	return t
}

// addVotes adds the copies of a grant to the members' batches, and counts members without
// a copy as refusals.
func (g *grant) addVotes(j int, l *driver.Lease, v *votes, parts []*part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.copies {
		c := &g.copies[i]
		if c.state != present {
			v.lost++
			continue
		}
		parts[i].add(j, g, c.of(l))
	}
}

// timeout returns how long members may take: until the deadline of ctx, or a third of the
// longest TTL without one.
func (t *tally) timeout(ctx context.Context, now time.Time) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline.Sub(now)
	}
	return t.ttl / 3
}

// renew sends the leases to the member. It does not use the memory of Renew's caller.
func (p *part) renew(ctx context.Context, m *member) ([]renewal.Outcome, error) {
	out := make([]renewal.Outcome, len(p.leases))
	if len(p.leases) == 0 {
		return out, nil
	}
	err := m.renew(ctx, p.leases, out)
	for k, g := range p.grants {
		g.renewed(p.at, out[k])
	}
	return out, err
}

// add counts the answer of a member, which has no value if the member ended the goroutine of the call.
func (t *tally) add(a answer[[]renewal.Outcome]) {
	t.errs.add(a.at, a.err)
	for k, o := range a.value {
		v := &t.votes[t.parts[a.at].index[k]]
		before := v.outcome()
		switch {
		case o == renewal.Renewed:
			v.renewed++
		case o.IsLost():
			v.lost++
			v.losses[o]++
		}
		if before == renewal.Unknown && v.outcome() != renewal.Unknown {
			t.undecided--
		}
	}
}

// finish writes the outcomes to out. It returns an error if leases are undecided.
func (t *tally) finish(out []renewal.Outcome, sent time.Time) error {
	for j := range t.votes {
		v := &t.votes[j]
		if out[j] = v.outcome(); out[j] == renewal.Renewed {
			v.grant.extend(sent.Add(v.ttl))
		}
	}
	switch {
	case t.undecided == 0:
		return nil
	case len(t.errs) == 0:
		return fmt.Errorf("quorumstore: %d of %d leases have no majority", t.undecided, len(t.votes))
	default:
		return fmt.Errorf("quorumstore: %d of %d leases have no majority: %w", t.undecided, len(t.votes), t.errs)
	}
}
