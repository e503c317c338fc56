package sim

import (
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// acted checks, when an answer of the store has been dealt with, that it was.
func (w *world) acted(t *tenure, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.held == nil || t.ended() {
		return
	}
	if gone {
		w.check("told")
		w.violated("told", "rule 3: p%d was not told at once that it lost %s", t.process.id, t.key)
		return
	}
	w.deadlineIs(t)
}

// deadlineIs holds the deadline of a lease against the formula: the instant before
// the confirmed request was sent, and 99 % of the TTL, and no margin. The caller
// holds mu.
func (w *world) deadlineIs(t *tenure) {
	w.check("deadline")
	at := t.held.Deadline()
	switch {
	case at.IsZero() || t.renewing || t.ended():
	case at.After(t.deadline):
		w.violated("deadline", "S1: p%d believes in %s for %v longer than it may", t.process.id, t.key, at.Sub(t.deadline))
	case at.Before(t.deadline) && !w.plan.wallMoves():
		w.violated("deadline", "L0: p%d trusts %s for %v less than it may", t.process.id, t.key, t.deadline.Sub(at))
	}
}

// lost is the hook for losses.
func (p *process) lost(info renewal.LostInfo) {
	w, l := p.world, info.Lease.(lock.Lease)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("loss")
	w.counts.Losses[info.Err.Reason.String()]++
	p.tally.Lost(info)
	t := w.tenures[tenureID{l.Key, l.Token}]
	if t == nil {
		w.violated("told", "p%d lost %s with token %d, which was never granted", p.id, l.Key, l.Token)
		return
	}
	w.note("p%d lost %s: %v", p.id, l.Key, info.Err.Reason)
	if t.told != nil {
		w.violated("told", "rule 6: p%d is told twice that %s is lost", p.id, t.key)
	}
	t.told, t.toldAt = info.Err, time.Now()
	w.rightly(t, info.Err.Reason)
}

// rightly checks that a loss is one. The caller holds mu.
func (w *world) rightly(t *tenure, reason renewal.Reason) {
	p, most := t.process, t.process.plan.failures()
	atEnd := reason == renewal.Expired && (p.plan.fixed || !t.latest.IsZero())
	switch {
	case w.plan.lossless() && !atEnd:
		w.violated("told", "L0, L1: p%d lost %s (%v)", p.id, t.key, reason)
	case reason == renewal.NotOwned && !t.denied:
		w.violated("told", "rule 4: p%d is told that the store has %s no more, which it did not say", p.id, t.key)
	case reason == renewal.Failed && (most < 1 || t.failures < most):
		w.violated("told", "rule 3: p%d is told of %s after %d failures of %d", p.id, t.key, t.failures, most)
	case reason == renewal.Expired && time.Now().Before(t.deadline) && !w.plan.wallMoves():
		w.violated("told", "L0: p%d lost %s %v before its deadline", p.id, t.key, time.Until(t.deadline))
	}
}

// batchDone is the hook for renewals.
func (p *process) batchDone(info renewal.BatchInfo) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if wrong := p.tally.BatchDone(info); wrong != "" {
		w.violated("stats", "p%d: %s", p.id, wrong)
	}
}

// look holds what a handle says against what the server says. It may be called at
// any instant.
func (w *world) look(t *tenure) {
	valid := t.held.Valid()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !valid {
		return
	}
	w.check("holding")
	held, ok := w.server.alive(t.key)
	ttl := t.process.plan.ttl
	switch {
	case !t.void && (!ok || held.owner != t.owner || held.token != t.token) && t.held.Valid():
		w.violated("holding", "S1: the handle of p%d is valid, but the server does not have %s for it, deadline in %v",
			t.process.id, t.key, time.Until(t.held.Deadline()))
	case t.void && time.Since(t.voidAt) >= ttl && !w.plan.wallMoves():
		w.violated("holding", "p%d still believes in %s a TTL after the server lost it", t.process.id, t.key)
	case t.told != nil && t.held.Valid():
		w.violated("holding", "S5: the handle of p%d is valid after its loss was told", t.process.id)
	}
}

// watch follows a lease to its end, and looks at it around each of its deadlines.
func (w *world) watch(t *tenure) {
	for {
		at := t.held.Deadline()
		if at.IsZero() {
			return
		}
		if !sleepUntil(at.Add(-1), t.done) {
			return
		}
		w.look(t)
		// Its holder may give it back at this very instant: then Deadline is zero.
		if !t.held.Valid() && at.Equal(t.held.Deadline()) && time.Until(at) > 0 && !w.plan.wallMoves() {
			w.fail("deadline", "L0: the handle of p%d is not valid %v before its deadline", t.process.id, time.Until(at))
		}
		sleepUntil(at, nil)
		if t.held.Deadline().After(time.Now()) {
			continue // it was renewed
		}
		if t.held.Valid() {
			w.fail("deadline", "S2: the handle of p%d is valid at its deadline", t.process.id)
		}
		w.look(t)
		w.mustBeTold(t, at)
		return
	}
}

// sleepUntil returns false if done was closed before.
func sleepUntil(at time.Time, done <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// mustBeTold waits for as long as it may take until the holder of a lease that is
// over is told: a tick of the engine. After a pause it may take the second until
// the clocks are compared.
func (w *world) mustBeTold(t *tenure, since time.Time) {
	tick := t.process.plan.tick
	by := since.Add(tick + 1)
	for {
		sleepUntil(by, t.done)
		end, still := t.process.gate.StoodStill(since)
		if late := end.Add(time.Second + 3*tick); still && late.After(by) {
			by = late
			continue
		}
		break
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("told")
	if !closed(t.done) && !w.plan.wallMoves() {
		w.violated("told", "S2: p%d was not told by %v after the deadline that it lost %s", t.process.id, time.Since(since), t.key)
	}
}

// probing looks at all leases at random instants.
func (w *world) probing() {
	d := chance.New(w.plan.seed, 7)
	for !w.over() {
		time.Sleep(d.UpTo(w.plan.ttl / 2))
		w.lookAtAll()
		w.tidies()
		for _, p := range w.procs {
			p.probe()
		}
	}
}

func (w *world) lookAtAll() {
	w.mu.Lock()
	var all []*tenure
	for _, t := range w.tenures {
		if t.held != nil {
			all = append(all, t)
		}
	}
	w.mu.Unlock()
	for _, t := range all {
		w.look(t)
		if !t.held.Valid() && !closed(t.done) && w.plan.wallMoves() {
			w.mustNotice(t)
		}
	}
}

// mustNotice: the clocks moved, and a lease is over before its timer. That is found
// out within a second, unless they move again.
func (w *world) mustNotice(t *tenure) {
	since := time.Now()
	w.after(time.Second+3*t.process.plan.tick+1, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.check("noticed")
		_, still := t.process.gate.StoodStill(since)
		if !still && !w.movedAt.After(since) && !closed(t.done) && !t.held.Valid() {
			w.violated("told", "rule 7: p%d was not told within a second that %s ended", t.process.id, t.key)
		}
	})
}

// probe holds the statistics of a client against its bounds.
func (p *process) probe() {
	s := p.client.Stats()
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("stats")
	most := p.plan.renewal.InFlight
	if most == 0 {
		most = 4
	}
	if s.Renewal.InFlight > most || s.Waiting < 0 || s.Cleaning < 0 || s.Renewal.Held < s.Renewal.Due {
		w.violated("stats", "R3: %+v", s)
	}
}
