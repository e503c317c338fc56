// The common handle of the locks of a Multi.

package lock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// multiHandle is the handle of a Multi. It ends with the first of its members; without members it has ended.
type multiHandle struct {
	members  []*Held
	ctx      context.Context // ends with the handle; its cause is the reason
	end      context.CancelCauseFunc
	observed *observation    // nil without hooks
	want     context.Context // ends when others wait for a member; nil if no member reports that

	yieldAfter time.Duration // the least of the members
}

func newMultiHandle(members []*Held) *Held {
	g := &multiHandle{members: members}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	var tell context.CancelFunc
	for _, h := range members {
		end, key := g.end, h.Key() // the function must not refer to g
		h.handle.afterFunc(func(err error) { end(failed("", key, err)) })
		want, after := h.handle.wanted()
		if want == nil {
			continue
		}
		if g.want == nil {
			g.want, tell = context.WithCancel(context.Background())
		}
		context.AfterFunc(want, tell)
		if after > 0 && (g.yieldAfter == 0 || after < g.yieldAfter) {
			g.yieldAfter = after
		}
	}
	return &Held{handle: g}
}

func (g *multiHandle) unlock(ctx context.Context, _ bool) error {
	_ = g.err() // records a loss before Unlock
	reports := g.observed.detach()
	if reports {
		ctx = g.observed.releasing(ctx, func() { _ = g.unlockAll(ctx) })
	}
	err := g.unlockAll(ctx)
	if reports {
		g.observed.ended(ctx, context.Cause(g.ctx), err)
	}
	return err
}

func (g *multiHandle) unlockAll(ctx context.Context) error {
	g.end(ErrNotHeld)
	silent := slices.DeleteFunc(slices.Clone(g.members), (*Held).reports)
	reporting := slices.DeleteFunc(slices.Clone(g.members), func(h *Held) bool { return !h.reports() })
	errs := forEach(silent, func(h *Held) error { return h.Unlock(ctx) })
	return errors.Join(errors.Join(errs...), unlockInTurn(ctx, reporting))
}

// reports reports whether Unlock may call a hook: for a batch that was entered through several
// others, and for locks that another package has acquired with Lock.
func (h *Held) reports() bool {
	switch of := h.handle.(type) {
	case *heldLease:
		return of.observed != nil
	case *reentrantHandle:
		return of.observed != nil
	case *multiHandle:
		return of.observed != nil || slices.ContainsFunc(of.members, (*Held).reports)
	}
	return false
}

// unlockInTurn unlocks handles on the goroutine of the caller, which their hooks may expect. If a
// hook panics, the others are unlocked, too.
func unlockInTurn(ctx context.Context, all []*Held) (err error) {
	if len(all) == 0 {
		return nil
	}
	defer func() { err = errors.Join(err, unlockInTurn(ctx, all[1:])) }()
	return all[0].Unlock(ctx)
}

// err returns the error of the first member that ended.
func (g *multiHandle) err() error {
	for _, h := range g.members {
		if err := h.Err(); err != nil {
			g.end(failed("", h.Key(), err)) // has no effect if it has ended before
			break
		}
	}
	return context.Cause(g.ctx)
}

func (g *multiHandle) valid() bool {
	return len(g.members) > 0 && !slices.ContainsFunc(g.members, func(h *Held) bool { return !h.Valid() })
}

func (g *multiHandle) done() <-chan struct{} {
	_ = g.err() // checks the clocks
	return g.ctx.Done()
}

func (g *multiHandle) afterFunc(f func(err error)) (stop func() bool) { return afterEnd(g.ctx, f) }

func (g *multiHandle) deadline() (first time.Time) {
	for i, h := range g.members {
		if d := h.Deadline(); i == 0 || d.Before(first) { // the zero Time is before all others
			first = d
		}
	}
	return first
}

// token returns 0, because tokens belong to one key.
func (g *multiHandle) token() uint64 { return 0 }

func (g *multiHandle) replicas() (least int, known bool) {
	for i, m := range g.members {
		n, known := m.Replicas()
		if !known {
			return 0, false
		}
		if i == 0 || n < least {
			least = n
		}
	}
	return least, len(g.members) > 0
}

func (g *multiHandle) key() string {
	keys := make([]string, len(g.members))
	for i, h := range g.members {
		keys[i] = h.Key()
	}
	return strings.Join(slices.Compact(keys), ", ") // several leases may have the same group
}

// names returns the members of a batch that was entered through several leases.
func (g *multiHandle) names() []string {
	var names []string
	for _, h := range g.members {
		names = append(names, h.handle.names()...)
	}
	slices.Sort(names)
	return names
}

func (g *multiHandle) logger() *slog.Logger { return g.members[0].handle.logger() }

func (g *multiHandle) String() string {
	names := make([]string, len(g.members))
	for i, h := range g.members {
		names[i] = h.String()
	}
	return strings.Join(names, ", ")
}

func (g *multiHandle) renewNow(ctx context.Context, ttl time.Duration) error {
	return errors.Join(forEach(g.members, func(h *Held) error { return h.Renew(ctx, ttl) })...)
}

func (g *multiHandle) refresh(ctx context.Context) error {
	return refreshAll(ctx, g.members)
}

// refreshAll refreshes the leases of all handles. If the store of one is unavailable, the
// error is of that one only, because no error matches both ErrUnavailable and
// ErrNotAcquired.
func refreshAll(ctx context.Context, all []*Held) error {
	errs := forEach(all, func(h *Held) error { return h.handle.refresh(ctx) })
	if i := slices.IndexFunc(errs, func(err error) bool { return !isAnswer(err) }); i >= 0 {
		return errs[i]
	}
	return errors.Join(errs...)
}

// withOwner returns a context in which each member can be entered while h is held.
func (g *multiHandle) withOwner(ctx context.Context, h *Held) context.Context {
	for _, m := range g.members {
		ctx = m.handle.withOwner(ctx, h)
	}
	return ctx
}

// A lease younger than TTL/freshPart is not refreshed.
const freshPart = 100

// refresh renews a lease that has aged while the other locks of a Multi were acquired. It
// tolerates one failure to reach the store.
func (s *heldLease) refresh(ctx context.Context) error {
	lease := s.entry.Lease()
	if time.Since(lease.Sent) <= lease.TTL/freshPart {
		return nil
	}
	err := s.renew(ctx, lease)
	if err == nil {
		return nil
	}
	outcome := &outcomeError{ErrUnavailable, causeOf(ctx), err}
	switch {
	case s.client.life.Err() != nil:
		outcome = &outcomeError{ErrNotAcquired, nil, ErrClosed}
	case isAnswer(err), isDefinite(err):
		outcome.kind = ErrNotAcquired
	default: // err may be that of a context that ended with the lease
		outcome.err = cmp.Or(s.state(), err)
	}
	return failed("", lease.Key, outcome)
}
