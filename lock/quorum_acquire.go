package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Acquire implements [Store].
func (q *quorum) Acquire(ctx context.Context, r Request) (Lease, error) {
	g, err := q.open(ctx, &r)
	if err != nil {
		return Lease{}, err
	}
	owned := r
	owned.Owner = g.try
	a := g.ask(&owned)
	sent := time.Now()
	answers, err := ask(ctx, q, patience(r.TTL), q.all(), func(ctx context.Context, i int) (Lease, error) {
		l, err := q.members[i].acquire(ctx, owned)
		return l, g.acquired(i, a, l, err)
	})
	if err != nil {
		return Lease{}, err
	}
	err = q.count(ctx, &r, answers)
	if err == nil && late(sent, r.TTL) {
		err = errLateMajority
	}
	if err != nil {
		if !a.again { // or else it stays what it was
			q.giveUp(g, sent.Add(r.TTL), err)
		}
		return Lease{}, err
	}
	g.granted(a, sent.Add(r.TTL))
	q.keep(g)
	return Lease{Request: r, Sent: sent, State: g}, nil
}

var errLateMajority = errors.New("lock: quorum: the majority came too late for the TTL")

// late reports whether nothing is left of a TTL that counts from then, on either
// clock.
func late(sent time.Time, ttl time.Duration) bool {
	now := time.Now()
	gone := max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
	return gone >= ttl-ttl/100-2*time.Millisecond
}

func (q *quorum) all() []int {
	at := make([]int, len(q.members))
	for i := range at {
		at[i] = i
	}
	return at
}

// count waits for the answers until they decide. It returns nil if enough members
// granted the request. The error is a *HeldError if so many answered that it was
// the others who hold the lock that kept it from being granted; ctx's cause; or the
// errors of the members that did not answer.
func (q *quorum) count(ctx context.Context, r *Request, answers <-chan answer[Lease]) error {
	b := ballot{members: len(q.members), need: q.need(r)}
	for !b.decided() {
		select {
		case a := <-answers:
			b.add(a)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b.verdict(r.Key)
}

// ballot counts the answers to an Acquire.
type ballot struct {
	members, need          int
	granted, taken, failed int
	expiries               []time.Duration // of those who have it, as far as known
	errs                   memberErrors
}

func (b *ballot) add(a answer[Lease]) {
	var taken *HeldError
	switch {
	case a.err == nil:
		b.granted++
	case errors.As(a.err, &taken):
		b.taken++
		if taken.ExpiresIn > 0 {
			b.expiries = append(b.expiries, taken.ExpiresIn)
		}
	default:
		b.failed++
		b.errs.add(a.at, a.err)
	}
}

// decided reports whether no further answer can change the verdict: the request is
// granted; or so many members failed that it cannot be; or it cannot be because others
// hold the lock, and enough have answered to say so.
func (b *ballot) decided() bool {
	switch {
	case b.granted >= b.need, b.failed > b.members-b.need:
		return true
	case b.members-b.taken-b.failed >= b.need:
		return false
	}
	return b.granted+b.taken >= b.need
}

func (b *ballot) verdict(key string) error {
	switch {
	case b.granted >= b.need:
		return nil
	case b.granted+b.taken >= b.need:
		return &HeldError{Key: key, ExpiresIn: b.expiresIn()}
	default:
		return fmt.Errorf("lock: quorum: %d of %d stores failed: %w", b.failed, b.members, b.errs)
	}
}

// expiresIn returns when so many leases of others end that there is a majority
// again, 0 if that is not known.
func (b *ballot) expiresIn() time.Duration {
	missing := b.need - b.granted
	if len(b.expiries) < missing {
		return 0
	}
	slices.Sort(b.expiries)
	return b.expiries[missing-1]
}
