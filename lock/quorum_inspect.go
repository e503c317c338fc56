package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var _ Inspector = (*quorum)(nil)

// Inspect implements [Inspector], if all members do. Of the members, in the order of how
// many holders they show, it shows what the one in the middle does: a majority shows as
// many at least. If that is one holder, it is the one that most members show. Members do
// not tell owners, so for a moment these may be different ones, each held by a minority.
// Tokens are left out: they are those of a member. It is an error if those members that
// answer leave open whether the lock is held.
func (q *quorum) Inspect(ctx context.Context, key string) (Info, error) {
	infos, err := look(ctx, q, func(ctx context.Context, s Inspector) (Info, error) { return s.Inspect(ctx, key) })
	if err != nil {
		return Info{}, err
	}
	var known []Info
	var errs memberErrors
	for i, a := range infos {
		errs.add(i, a.err)
		if a.err == nil {
			known = append(known, a.value)
		}
	}
	majority := len(q.members)/2 + 1
	if len(known) < majority {
		return Info{}, fmt.Errorf("lock: quorum: %d of %d stores failed: %w", len(errs), len(q.members), errs)
	}
	slices.SortStableFunc(known, func(a, b Info) int { return cmp.Compare(b.Held, a.Held) })
	info := known[majority-1]
	if info.Held == 0 && known[max(majority-1-len(errs), 0)].Held > 0 {
		return Info{}, fmt.Errorf("lock: quorum: %d of %d stores failed, and the others do not agree on whether it is held: %w", len(errs), len(q.members), errs)
	}
	if len(info.Holders) == 1 {
		info = usual(known)
	}
	info.Token, info.Holders = 0, slices.Clone(info.Holders)
	for i := range info.Holders {
		info.Holders[i].Token = 0
	}
	return info, nil
}

// usual returns what most of those members show that show one holder, of whom nothing
// but the metadata can tell whether it is the same: the others may have a lease that
// is on its way out or in.
func usual(known []Info) (most Info) {
	votes := make(map[string]int)
	for _, info := range known {
		if len(info.Holders) != 1 {
			continue
		}
		metadata := info.Holders[0].Metadata
		votes[metadata]++
		if len(most.Holders) == 0 || votes[metadata] > votes[most.Holders[0].Metadata] {
			most = info
		}
	}
	return most
}

// ForceRelease implements [Inspector], if all members do: the lock is taken away at
// all of them. What only a minority holds is held by nobody.
func (q *quorum) ForceRelease(ctx context.Context, key string) error {
	answers, err := look(ctx, q, func(ctx context.Context, s Inspector) (struct{}, error) { return struct{}{}, s.ForceRelease(ctx, key) })
	if err != nil {
		return err
	}
	c := returns{members: len(q.members), need: len(q.members)/2 + 1}
	for _, a := range answers {
		c.add(a)
	}
	switch {
	case c.done >= c.need:
		return nil
	case len(c.errs) > 0:
		return fmt.Errorf("lock: quorum: no majority confirmed the release: %w", c.errs)
	}
	return ErrNotHeld
}

// look asks all members, and waits for each until it is answered or silent.
func look[A any](ctx context.Context, q *quorum, f func(context.Context, Inspector) (A, error)) ([]answer[A], error) {
	for _, m := range q.members {
		if _, ok := m.store.(Inspector); !ok {
			return nil, errors.ErrUnsupported
		}
	}
	if err := endOf(ctx); err != nil {
		return nil, err
	}
	answers, err := ask(ctx, q, lookTimeout, q.all(), func(ctx context.Context, i int) (A, error) {
		return f(ctx, q.members[i].store.(Inspector))
	})
	if err != nil {
		return nil, err
	}
	all := make([]answer[A], len(q.members))
	for range all {
		select {
		case a := <-answers:
			all[a.at] = a
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return all, nil
}

// lookTimeout bounds one answer to Inspect or ForceRelease.
const lookTimeout = time.Second
