// The invariants of docs/SAFETY.md about losses, deadlines and statistics.

package sim

import (
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// acted checks, an instant after the watchdog got the answer to a renewal, that it has acted
// on it: the handle reports the loss, or has the deadline that docs/SAFETY.md defines.
func (w *World) acted(g *Grant, over bool) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if g.Handle() == nil || g.Ended() {
		return
	}
	if over {
		w.Check("told")
		w.Violated("told", "rule 3: p%d got no immediate report of the loss of %s", g.Process.ID, g.Key)
		return
	}
	w.Check("deadline")
	at := g.Handle().Deadline()
	switch {
	case at.IsZero() || g.renewing > 0 || g.Ended():
	case at.After(g.Deadline):
		w.Violated("deadline", "S1: the deadline of p%d for %s is %v too late", g.Process.ID, g.Key, at.Sub(g.Deadline))
	case at.Before(g.Deadline) && !w.Plan.WallMoves:
		w.Violated("deadline", "L0: the deadline of p%d for %s is %v too early", g.Process.ID, g.Key, g.Deadline.Sub(at))
	}
}

// lost is called after each loss.
func (p *Process) lost(lease any, reason error) {
	w, l := p.World, lease.(driver.Lease)
	loss, _ := errors.AsType[*renewal.LostError](reason)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("loss")
	w.Counts.Losses[loss.Reason.String()]++
	p.Stats.lost[loss.Reason]++
	g := w.Grants[GrantID{l.Key, l.Owner, l.Token}]
	if g == nil {
		w.Violated("told", "p%d lost %s with token %d, which was never granted", p.ID, l.Key, l.Token)
		return
	}
	w.Note("p%d lost %s: %v", p.ID, l.Key, loss.Reason)
	if g.loss != nil {
		w.Violated("told", "rule 6: p%d got two reports of the loss of %s", p.ID, g.Key)
	}
	g.loss, g.lossAt = loss, time.Now()
	w.checkLoss(g, loss.Reason)
}

// checkLoss checks that there is a reason for a reported loss.
func (w *World) checkLoss(g *Grant, reason renewal.Reason) {
	p, most := g.Process, g.Process.Plan.MaxFailures()
	early := time.Now().Before(g.Deadline)
	atDeadline := reason == renewal.ReasonExpired || reason == renewal.ReasonLimitReached
	atEnd := atDeadline && !g.latest.IsZero() && !early
	switch {
	case w.Plan.Lossless && !atEnd && !g.short:
		w.Violated("told", "L0, L1: p%d lost %s (%v)", p.ID, g.Key, reason)
	case reason == renewal.ReasonNotOwned && !g.denied && !g.downgrading: // the answer to a Downgrade may be the report
		w.Violated("told", "rule 4: p%d got NotOwned for %s, but the store has not reported that", p.ID, g.Key)
	case reason == renewal.ReasonNotOwned && w.has(g) && !g.Void && !w.Plan.Forgets && !w.Plan.WallMoves: // a clock that is set back may revive the lease
		w.Violated("told", "rule 4: p%d got a report of the loss of %s, but the server has its lease", p.ID, g.Key)
	case g.downgrading || g.unsure:
	case reason == renewal.ReasonFailed && (most < 1 || g.failures < most):
		w.Violated("told", "rule 3: p%d got a report of the loss of %s after %d failures of %d", p.ID, g.Key, g.failures, most)
	case reason == renewal.ReasonLimitReached && g.latest.IsZero():
		w.Violated("told", "p%d got LimitReached for %s, which has no limit", p.ID, g.Key)
	case atDeadline && early && !w.Plan.WallMoves:
		w.Violated("told", "L0: p%d lost %s %v before its deadline", p.ID, g.Key, time.Until(g.Deadline))
	}
}

// batchDone is the hook for renewals.
func (p *Process) batchDone(info renewal.BatchInfo) {
	w := p.World
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if wrong := p.Stats.BatchDone(info); wrong != "" {
		w.Violated("stats", "p%d: %s", p.ID, wrong)
	}
}

// look compares a handle with the leases on the servers. It may be called at any instant.
func (w *World) look(g *Grant) {
	h := g.Handle()
	if !h.Valid() {
		return
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("holding")
	left, at := w.Backend.Lasts(g), h.Deadline()
	switch {
	case !g.Void && left == 0 && h.Valid():
		w.Violated("holding", "S1: the handle of p%d is valid, but the server has no lease of %s for it; deadline in %v",
			g.Process.ID, g.Key, time.Until(at))
	case !g.Void && time.Until(at) > left && !w.Plan.WallMoves && h.Valid():
		w.Violated("holding", "S1: the handle of p%d is valid for %v, but the server keeps its lease of %s for %v",
			g.Process.ID, time.Until(at), g.Key, left)
	case g.Void && time.Since(g.voidAt) >= g.Process.Plan.TTL && left == 0 && !w.Plan.WallMoves:
		w.Violated("holding", "p%d still holds %s a TTL after the server lost it", g.Process.ID, g.Key)
	case !g.latest.IsZero() && at.After(g.latest):
		w.Violated("holding", "S2: the deadline of p%d is %v after the end of its lease", g.Process.ID, at.Sub(g.latest))
	case g.loss != nil && h.Valid():
		w.Violated("holding", "S5: the handle of p%d is valid after it reported its loss", g.Process.ID)
	}
}

// watch calls look around each deadline of a lease, until the lease ends.
func (w *World) watch(g *Grant) {
	for {
		at := g.Handle().Deadline()
		if at.IsZero() || !sleepUntil(at.Add(-1), g.done) {
			return
		}
		w.look(g)
		// If the holder unlocks at this instant, Deadline returns zero.
		if !g.Handle().Valid() && at.Equal(g.Handle().Deadline()) && time.Until(at) > 0 && !w.Plan.WallMoves {
			w.Fail("deadline", "L0: the handle of p%d is not valid %v before its deadline", g.Process.ID, time.Until(at))
		}
		sleepUntil(at, nil)
		if g.Handle().Deadline().After(time.Now()) {
			continue // the lease was renewed
		}
		if g.Handle().Valid() {
			w.Fail("deadline", "S2: the handle of p%d is valid at its deadline", g.Process.ID)
		}
		w.look(g)
		w.mustBeTold(g, at)
		return
	}
}

// mustBeTold checks that the handle of a lease reports its end within a tick of the engine.
// After a pause, this may take the second in which the clocks are compared. If the engine
// fails, it may take until the lease can expire on the server.
func (w *World) mustBeTold(g *Grant, since time.Time) {
	plan := &g.Process.Plan
	by := since.Add(plan.Tick + 1)
	if w.Plan.EngineFails {
		by = since.Add(plan.TTL - plan.Validity())
	}
	for {
		sleepUntil(by, g.done)
		end, paused := g.Process.Pauser.PausedSince(since)
		late := end.Add(time.Second + 3*plan.Tick)
		if !paused || !late.After(by) {
			break
		}
		by = late
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("told")
	if !g.Ended() && !w.Plan.WallMoves {
		w.Violated("told", "S2: the handle of p%d is still open %v after the deadline of %s", g.Process.ID, time.Since(since), g.Key)
	}
}

// probing checks everything at random instants.
func (w *World) probing() {
	d := simrand.New(w.Plan.Seed, 7)
	for !w.over() {
		time.Sleep(d.UpTo(w.Plan.TTL / 2))
		w.Mu.Lock()
		w.Backend.Probe()
		var all []*Grant
		for _, g := range w.Grants {
			if g.Handle() != nil {
				all = append(all, g)
			}
		}
		w.Mu.Unlock()
		for _, g := range all {
			w.look(g)
			if w.Plan.WallMoves && !g.Handle().Valid() && !g.Ended() {
				w.mustNotice(g)
			}
		}
		w.CheckLeaks()
		for _, p := range w.Procs {
			p.checkStats()
		}
	}
}

// mustNotice checks that the watchdog notices within a second that a step of the clocks has
// ended a lease before its timer, unless the clocks are stepped again.
func (w *World) mustNotice(g *Grant) {
	since := time.Now()
	w.After(time.Second+3*g.Process.Plan.Tick+1, func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Check("noticed")
		_, paused := g.Process.Pauser.PausedSince(since)
		if !paused && !w.clocks.movedAt.After(since) && !g.Ended() && !g.Handle().Valid() {
			w.Violated("told", "rule 7: the handle of p%d did not report the end of %s within a second", g.Process.ID, g.Key)
		}
	})
}

// checkStats checks the statistics of a client against their bounds.
func (p *Process) checkStats() {
	s := p.Client.Stats()
	w := p.World
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("stats")
	most := p.Plan.Tuning.InFlight
	if most == 0 {
		most = 4
	}
	if s.Renewal.InFlight > most && !w.Plan.Quorum || s.Waiting < 0 || s.Releasing < 0 || s.Renewal.Held < s.Renewal.Due {
		w.Violated("stats", "R3: %+v", s)
	}
}
