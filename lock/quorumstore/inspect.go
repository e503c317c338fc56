// Inspect, ForceRelease and SetMetadata.

package quorumstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Inspect implements [driver.Store] if all members do. It sorts the members by the
// number of holders that they report, and returns the median, so a majority reports at
// least as many holders. A single holder is the one that most members report. Members do
// not report owners, so for a moment a minority lease may be shown. Tokens are left out,
// because each belongs to one member. Inspect returns an error if the answers leave open
// whether the lock is held.
func (q *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	if !q.Describe().Inspects {
		return q.Base.Inspect(ctx, key)
	}
	infos, err := askAll(ctx, q, func(ctx context.Context, s driver.Store) (driver.Info, error) { return s.Inspect(ctx, key) })
	if err != nil {
		return driver.Info{}, err
	}
	var known []driver.Info
	var errs memberErrors
	for i, a := range infos {
		errs.add(i, a.err)
		if a.err == nil {
			known = append(known, a.value)
		}
	}
	majority := len(q.members)/2 + 1
	if len(known) < majority {
		return driver.Info{}, fmt.Errorf("quorumstore: %d of %d stores failed: %w", len(errs), len(q.members), errs)
	}
	slices.SortStableFunc(known, func(a, b driver.Info) int { return cmp.Compare(b.Held, a.Held) })
	info := known[majority-1]
	if info.Held == 0 && known[max(majority-1-len(errs), 0)].Held > 0 {
		return driver.Info{}, fmt.Errorf("quorumstore: %d of %d stores failed, and the others disagree whether the lock is held: %w", len(errs), len(q.members), errs)
	}
	if len(info.Holders) == 1 {
		info = mostCommon(known)
	}
	info.FreeIn = 0
	if info.Held == 0 {
		info.FreeIn = freeIn(known, majority)
	}
	info.Token, info.Holders = 0, slices.Clone(info.Holders)
	for i := range info.Holders {
		info.Holders[i].Token = 0
	}
	return info, nil
}

// freeIn returns the time until fewer than a majority of the stores have the lock taken, or 0 if
// that is so now.
func freeIn(known []driver.Info, majority int) time.Duration {
	taken := make([]time.Duration, len(known))
	for i, info := range known {
		taken[i] = info.FreeIn
		for _, h := range info.Holders {
			taken[i] = max(taken[i], h.ExpiresIn)
		}
	}
	slices.SortFunc(taken, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return taken[majority-1]
}

// mostCommon returns the holder that most members report, among members that report
// exactly one. Holders are compared by client and metadata. The remaining members may have a
// lease that is just being acquired or released.
func mostCommon(known []driver.Info) (most driver.Info) {
	type name struct{ client, metadata string }
	nameOf := func(info driver.Info) name { return name{info.Holders[0].Client, info.Holders[0].Metadata} }
	votes := make(map[name]int)
	for _, info := range known {
		if len(info.Holders) != 1 {
			continue
		}
		n := nameOf(info)
		votes[n]++
		if len(most.Holders) == 0 || votes[n] > votes[nameOf(most)] {
			most = info
		}
	}
	return most
}

// ForceRelease implements [driver.Store] if all members do. It releases the lock at
// all members. A lock that only a minority holds counts as not held.
func (q *Store) ForceRelease(ctx context.Context, key string) error {
	if !q.Describe().Inspects {
		return q.Base.ForceRelease(ctx, key)
	}
	answers, err := askAll(ctx, q, func(ctx context.Context, s driver.Store) (struct{}, error) {
		return struct{}{}, s.ForceRelease(ctx, key)
	})
	if err != nil {
		return err
	}
	c := releaseCount{members: len(q.members), need: len(q.members)/2 + 1}
	for _, a := range answers {
		c.add(a)
	}
	switch {
	case c.released >= c.need:
		return nil
	case len(c.errs) > 0:
		return fmt.Errorf("quorumstore: no majority confirmed the release: %w", c.errs)
	}
	return driver.ErrNotHeld
}

// SetMetadata implements [driver.Store] if all members do. It changes the metadata
// of all copies of the lease, and returns nil once a majority has confirmed that.
func (q *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if !q.Describe().SetsMetadata {
		return q.Base.SetMetadata(ctx, l, metadata)
	}
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	g := q.find(&l)
	if g == nil {
		return driver.ErrNotHeld
	}
	leases, at := g.present(&l)
	answers, err := callAll(ctx, q, inspectTimeout, at, func(ctx context.Context, i int) (struct{}, error) {
		return struct{}{}, q.members[i].store.SetMetadata(ctx, leases[i], metadata)
	})
	if err != nil {
		return err
	}
	c := releaseCount{members: len(q.members), need: q.need(&l.Request), absent: len(q.members) - len(at)}
	for range at {
		a, err := next(ctx, answers)
		if err != nil {
			return err
		}
		if c.add(a); c.released >= c.need {
			return nil
		}
	}
	if len(c.errs) == 0 || c.notHeld() {
		return driver.ErrNotHeld
	}
	return fmt.Errorf("quorumstore: no majority confirmed the metadata: %w", c.errs)
}

// askAll calls f for all members, and waits until each has answered or its call has timed
// out.
func askAll[A any](ctx context.Context, q *Store, f func(context.Context, driver.Store) (A, error)) ([]answer[A], error) {
	if err := basic.Cause(ctx); err != nil {
		return nil, err
	}
	answers, err := callAll(ctx, q, inspectTimeout, q.all(), func(ctx context.Context, i int) (A, error) {
		return f(ctx, q.members[i].store)
	})
	if err != nil {
		return nil, err
	}
	all := make([]answer[A], len(q.members))
	for range all {
		a, err := next(ctx, answers)
		if err != nil {
			return nil, err
		}
		all[a.at] = a
	}
	return all, nil
}

// inspectTimeout bounds the answer of one member to Inspect, ForceRelease or SetMetadata.
const inspectTimeout = time.Second
