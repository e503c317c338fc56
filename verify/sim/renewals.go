// The checks of renewals, by the store and by the commands on the network.

package sim

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// resumeTime is the time after a pause within which all delayed callers of a process continue.
const resumeTime = 200 * time.Microsecond

// queueTime is how long a renewal may wait for a worker if nothing fails: a call takes 10 ms,
// and few leases are held.
const queueTime = 60 * time.Millisecond

// renewing records a call of Renew and checks its leases. It returns their grants, with nil for
// a lease that was never granted.
func (w *World) renewing(ctx context.Context, p *Process, batch []driver.Lease, sent time.Time) (grants []*Grant) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("renewal")
	for _, l := range batch {
		grants = append(grants, w.Grants[GrantID{l.Key, l.Owner, l.Token}])
	}
	if isRefresh(ctx) {
		if g := grants[0]; g != nil {
			g.refreshing = true
		}
		return grants
	}
	early := seam.IsEarly(ctx)
	p.Stats.Calls++
	p.Stats.Leases += len(batch)
	if early {
		p.Stats.Early += len(batch)
		p.Stats.earlyCalls++
	}
	if most := p.Plan.Tuning.MaxBatch; most > 0 && len(batch) > most {
		w.Violated("renewal", "a batch has %d leases; MaxBatch is %d", len(batch), most)
	}
	if at, most := p.Stats.Calls-p.Stats.Answered-p.Stats.earlyCalls, p.Plan.Tuning.InFlight; most > 0 && at > most && !w.Plan.Quorum {
		w.Violated("renewal", "R3: %d renewals are running; InFlight is %d", at, most)
	}
	now := time.Now()
	var latest time.Time
	for i, g := range grants {
		if g == nil {
			w.Violated("renewal", "S4: p%d renews %s with token %d, which it never got", p.ID, batch[i].Key, batch[i].Token)
			continue
		}
		w.checkRenewal(g, sent, now, early)
		g.renewing++
		g.batch, g.commands = len(batch), nil
		g.beside = early || g.early > 0
		if early {
			g.early++
			w.Counts.Operations["renewed early"]++
		} else {
			g.sent, g.left = now, g.Deadline.Sub(now)
		}
		latest = Later(latest, g.Deadline)
	}
	if end, ok := ctx.Deadline(); w.clocks.moved == 0 && (!ok || end.After(latest)) {
		w.Violated("renewal", "S5: a renewal may outlive the deadlines of its batch, by %v", end.Sub(latest))
	}
	return grants
}

// checkRenewal checks that a lease may be renewed now: it is held, no other renewal of it is
// running, and the renewal is neither too early nor too late. An early renewal may be beside another one, and at any time.
func (w *World) checkRenewal(g *Grant, sent, now time.Time, early bool) {
	plan, id, exact := &g.Process.Plan, g.Process.ID, w.Plan.Exact
	since := now.Sub(g.sent)
	_, resumed := g.Process.Pauser.PausedSince(now.Add(-resumeTime))
	_, paused := g.Process.Pauser.PausedSince(g.sent)
	switch {
	case g.downgrading:
	case !sent.After(g.begun): // the writer has become a reader since then
		g.unsure, g.doubt = true, sent
	case g.renewing > g.early && !early, g.early > 0 && early:
		w.Violated("renewal", "p%d has two renewals of %s at the same time", id, g.Key)
	case !g.unlocked.IsZero() && g.unlocked.Before(now) && (exact || g.gone && !resumed):
		w.Violated("renewal", "S6: p%d renews %s %v after Unlock began", id, g.Key, now.Sub(g.unlocked))
	case g.loss != nil && g.lossAt.Before(now) && (exact || !resumed):
		w.Violated("renewal", "S5: p%d renews %s %v after the handle reported its loss", id, g.Key, now.Sub(g.lossAt))
	case plan.Fixed:
		w.Violated("renewal", "p%d renews %s, which is fixed", id, g.Key)
	case exact && !now.Before(g.Deadline):
		w.Violated("renewal", "S5: p%d renews %s %v after its deadline", id, g.Key, now.Sub(g.Deadline))
	case early: // at any time
	case w.Plan.Steady && since > plan.Period()+2*plan.Tick+queueTime:
		w.Violated("renewal", "p%d renews %s %v after the last renewal; its period is %v", id, g.Key, since, plan.Period())
	case exact && !paused && !w.Plan.WallMoves && g.failures > 0 && since < plan.Period()*3/4 &&
		g.left > plan.Period()+max(plan.TTL/100, plan.Margin()):
		w.Violated("renewal", "rule 2: p%d renews %s again after %v; its period is %v", id, g.Key, since, plan.Period())
	}
}

// renewed records the outcomes of a call of Renew, and checks an instant later that the
// watchdog has acted on them.
func (w *World) renewed(ctx context.Context, p *Process, grants []*Grant, out []renewal.Outcome, sent time.Time) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	refresh, early := isRefresh(ctx), seam.IsEarly(ctx)
	if !refresh {
		p.Stats.Answered++
	}
	if early {
		p.Stats.earlyCalls--
	}
	for i, g := range grants {
		if g == nil {
			continue
		}
		w.Note("p%d has renewed %s %s: %v", p.ID, g.Key, w.Names.Of(g.Owner), out[i])
		over := w.outcome(g, out[i], sent, refresh || early)
		if refresh {
			g.refreshing = false
			continue
		}
		g.renewing--
		if early {
			g.early--
		}
		if !p.Closed && !g.downgrading && !g.unsure {
			w.After(1, func() { w.acted(g, over) })
		}
	}
}

// outcome records the outcome of a renewal, and reports whether it ends the lease. beside is set if the renewal is not a regular one:
// then only an answer counts.
func (w *World) outcome(g *Grant, out renewal.Outcome, sent time.Time, beside bool) (over bool) {
	p := g.Process
	next := w.Grants[g.GrantID]
	downgraded := next != nil && next.former == g && next.unsure // the renewal may already be the reader's
	switch {
	case out == renewal.Renewed:
		w.Counts.Operations["renewed"]++
		g.failures = 0
		if !beside && sent.After(g.doubt) {
			g.unsure = false
		}
		if w.clocks.hid(sent) {
			g.void()
		}
		if time.Now().Before(g.Deadline) {
			g.Deadline = Later(g.Deadline, sent.Add(p.Plan.Validity()))
			if !g.latest.IsZero() {
				g.Deadline = earlier(g.Deadline, g.latest)
			}
		}
		if downgraded {
			next.Deadline = Later(next.Deadline, g.Deadline)
		}
	case out.IsLost():
		g.denied, over = true, true
		if downgraded {
			next.denied = true
		}
	case !beside:
		w.Counts.Operations["renewal without an answer"]++
		g.failures++
		most := p.Plan.MaxFailures()
		over = most > 0 && g.failures >= most
	}
	return over
}

type byUser struct{}

// by marks the calls of a user.
func by(ctx context.Context, u *User) context.Context { return context.WithValue(ctx, byUser{}, u) }

// isRefresh reports whether a renewal comes from a Multi, which renews its members with the
// context of its user before it returns.
func isRefresh(ctx context.Context) bool { return ctx.Value(byUser{}) != nil }

// CheckSent checks a renewal that a client sends for one lease. A call of Renew must be running,
// so nothing may be sent after Unlock or after a reported loss. verb is the Redis command. The
// caller holds Mu.
func (w *World) CheckSent(p *Process, g *Grant, verb string) {
	w.Check("sent")
	_, resumed := p.Pauser.PausedSince(time.Now().Add(-resumeTime))
	switch {
	case g == nil || g.Process != p:
		w.Violated("sent", "S4: p%d renews a lease that it never got", p.ID)
	case g.refreshing, g.downgrading, g.unsure, w.Plan.Quorum: // a quorum does not wait for all answers
	case !g.isRenewed() && !resumed:
		w.Violated("sent", "S5, S6: p%d sends a renewal of %s after the call had returned", p.ID, g.Key)
	case !time.Now().Before(g.Deadline) && !resumed && g.batch == 1:
		w.Violated("sent", "S5: p%d sends a renewal of %s %v after its deadline", p.ID, g.Key, time.Since(g.Deadline))
	case g.repeats(verb) && !resumed && !g.beside:
		w.Violated("sent", "rule 2: p%d sends a second renewal of %s in the same call", p.ID, g.Key)
	}
}

// repeats records that a command is sent, and reports whether the same call has sent it too
// often: a script in full once, its digest twice, because the server may forget the script at any time.
func (g *Grant) repeats(verb string) bool {
	g.commands = append(g.commands, verb)
	times := 0
	for _, c := range g.commands {
		if c == verb {
			times++
		}
	}
	return times > 2 || times == 2 && verb != "evalsha"
}

// isRenewed reports whether a running call of Renew has the lease, or the writer's lease that it
// has replaced.
func (g *Grant) isRenewed() bool {
	for ; g != nil; g = g.former {
		if g.renewing > 0 {
			return true
		}
	}
	return false
}
