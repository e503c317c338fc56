package lock

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// group is what the handle of a Multi stands for: it ends with the first of its
// members.
type group struct {
	members []*Held
	ctx     context.Context // ends with the group, its cause being why
	end     context.CancelCauseFunc
}

func newGroup(members []*Held) *Held {
	g := &group{members: members}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	for _, h := range members {
		h.hold.afterFunc(func() { _ = g.err() })
	}
	return &Held{hold: g}
}

func (g *group) unlock(ctx context.Context) error {
	_ = g.err() // a loss before Unlock stays one
	g.end(ErrNotHeld)
	return each(g.members, func(h *Held) error { return h.Unlock(ctx) })
}

// err is that of the first member that ended.
func (g *group) err() error {
	for _, h := range g.members {
		if err := h.Err(); err != nil {
			g.end(failed("", h.Key(), err)) // unless it has ended before
			break
		}
	}
	return context.Cause(g.ctx)
}

func (g *group) valid() bool {
	return !slices.ContainsFunc(g.members, func(h *Held) bool { return !h.Valid() })
}

func (g *group) done() <-chan struct{} {
	_ = g.err() // which looks at the clocks
	return g.ctx.Done()
}

func (g *group) afterFunc(f func()) (stop func() bool) { return context.AfterFunc(g.ctx, f) }

func (g *group) deadline() time.Time {
	first := g.members[0].Deadline()
	for _, h := range g.members[1:] {
		if d := h.Deadline(); d.Before(first) { // the zero Time is before all
			first = d
		}
	}
	return first
}

// token is 0: tokens are those of a key.
func (g *group) token() uint64 { return 0 }

func (g *group) key() string {
	keys := make([]string, len(g.members))
	for i, h := range g.members {
		keys[i] = h.Key()
	}
	return strings.Join(slices.Compact(keys), ", ") // a batch may stand for several leases of its group
}

// names are those of a batch that stands for several leases; see [Batch].
func (g *group) names() []string {
	var names []string
	for _, h := range g.members {
		names = append(names, h.hold.names()...)
	}
	slices.Sort(names)
	return names
}

func (g *group) logger() *slog.Logger { return g.members[0].hold.logger() }

func (g *group) String() string {
	names := make([]string, len(g.members))
	for i, h := range g.members {
		names[i] = h.String()
	}
	return strings.Join(names, ", ")
}

func (g *group) refresh(ctx context.Context) error {
	return each(g.members, func(h *Held) error { return h.hold.refresh(ctx) })
}

// carry has each member entered as long as the whole is held.
func (g *group) carry(ctx context.Context, h *Held) context.Context {
	for _, m := range g.members {
		ctx = m.hold.carry(ctx, h)
	}
	return ctx
}
