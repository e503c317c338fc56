// Acquire, and the count of its answers.

package quorumstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Acquire implements [driver.Store].
func (q *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := q.Describe().TTL.Check(r.TTL); err != nil {
		return driver.Lease{}, fmt.Errorf("quorumstore: %w", basic.Unprefixed(err))
	}
	g, err := q.grantFor(ctx, &r)
	if err != nil {
		return driver.Lease{}, err
	}
	owned := r
	owned.Owner = g.try
	a := g.startAttempt(&owned)
	sent := time.Now()
	answers, err := callAll(ctx, q, attemptTimeout(r.TTL), q.all(), func(ctx context.Context, i int) (driver.Lease, error) {
		l, err := q.members[i].acquire(ctx, owned)
		err = g.acquired(i, a, l, err)
		if err == nil && !a.repeated {
			q.compareTokens(g)
		}
		return l, err
	})
	if err != nil {
		return driver.Lease{}, err
	}
	oldest, err := q.awaitMajority(ctx, &r, a.repeated, answers)
	if err == nil && !oldest.IsZero() && oldest.Before(sent) {
		sent = oldest // a member has a session that was renewed then
	}
	if err == nil && !a.repeated {
		err = q.checkDistinct(ctx, &r)
	}
	if err == nil && tooLate(sent, r.TTL) {
		err = errLateMajority
	}
	if err != nil {
		if !a.repeated { // a repeated Acquire that fails leaves the grant as it is
			q.fail(g, sent.Add(q.Describe().TTL.Longest(r.TTL)), ctx.Err() == nil && errors.As(err, new(*driver.HeldError)))
		}
		return driver.Lease{}, err
	}
	g.granted(a, sent.Add(r.TTL))
	q.remember(g)
	return driver.Lease{Request: r, Sent: sent, State: g}, nil
}

var errLateMajority = errors.New("quorumstore: majority answered too late for the TTL")

// tooLate reports whether the TTL, less the margin for clock drift, has passed since
// sent, on the monotonic or on the wall clock.
func tooLate(sent time.Time, ttl time.Duration) bool {
	now := time.Now()
	gone := max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
	return gone >= ttl-ttl/100-2*time.Millisecond
}

func (q *Store) all() []int {
	at := make([]int, len(q.members))
	for i := range at {
		at[i] = i
	}
	return at
}

// awaitMajority waits until the answers decide the request. If enough members granted it, it
// returns the earliest Sent of their leases, zero if none has one. The error is a
// *driver.HeldError if other holders prevent a majority, the cause of ctx, or the errors of the
// members that failed.
func (q *Store) awaitMajority(ctx context.Context, r *driver.Request, repeated bool, answers <-chan answer[driver.Lease]) (time.Time, error) {
	b := ballot{members: len(q.members), need: q.need(r), repeated: repeated}
	for !b.decided() {
		a, err := next(ctx, answers)
		if err != nil {
			return time.Time{}, err
		}
		b.add(a)
	}
	return b.oldest, b.result(r.Key)
}

// ballot counts the answers to an Acquire.
type ballot struct {
	members, need         int
	repeated              bool // the owner had the lock before
	granted, held, failed int
	member                string          // of a batch: one that another holder has
	expiries              []time.Duration // times until the leases of other holders end, where known
	errs                  memberErrors
	oldest                time.Time // earliest Sent of a granted lease that has one
}

func (b *ballot) add(a answer[driver.Lease]) {
	var held *driver.HeldError
	switch {
	case a.err == nil:
		b.granted++
		if at := a.value.Sent; !at.IsZero() && (b.oldest.IsZero() || at.Before(b.oldest)) {
			b.oldest = at
		}
	case errors.As(a.err, &held):
		b.held++
		b.member = cmp.Or(b.member, held.Member)
		if held.ExpiresIn > 0 {
			b.expiries = append(b.expiries, held.ExpiresIn)
		}
	default:
		b.failed++
		b.errs.add(a.at, a.err)
	}
}

// decided reports whether no further answer can change the result.
func (b *ballot) decided() bool {
	switch {
	case b.granted >= b.need:
		return true
	case b.canBeGranted():
		return false
	}
	open := b.members - b.granted - b.held - b.failed
	return b.isTaken(b.held) || !b.isTaken(b.held+open)
}

// canBeGranted reports whether the members that have not answered could make a majority.
func (b *ballot) canBeGranted() bool { return b.members-b.held-b.failed >= b.need }

// isTaken reports whether other holders prevent a majority, if they hold the lock in so many
// members. A member that failed may have the lease that a repeated request is about, so a
// repeated request is refused only if other holders alone prevent a majority.
func (b *ballot) isTaken(held int) bool {
	if b.repeated {
		return held > b.members-b.need
	}
	return b.granted+held >= b.need
}

func (b *ballot) result(key string) error {
	switch {
	case b.granted >= b.need:
		return nil
	case b.isTaken(b.held):
		return &driver.HeldError{Key: key, Member: b.member, ExpiresIn: b.expiresIn()}
	default:
		return fmt.Errorf("quorumstore: %d of %d stores failed: %w", b.failed, b.members, b.errs)
	}
}

// expiresIn returns the time until enough leases of other holders end to allow a
// majority, or 0 if that is unknown.
func (b *ballot) expiresIn() time.Duration {
	missing := b.need - b.granted
	if len(b.expiries) < missing {
		return 0
	}
	slices.Sort(b.expiries)
	return b.expiries[missing-1]
}
