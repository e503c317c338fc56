package whole

import (
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// acted checks, when an answer of the store has been dealt with, that it was.
func (w *world) acted(t *tenure, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.handle() == nil || closed(t.done) {
		return
	}
	if gone {
		w.check("told")
		w.violated("told", "rule 3: p%d was not told at once that it lost %s", t.process.id, t.key)
		return
	}
	w.check("deadline")
	at := t.handle().Deadline()
	switch {
	case at.IsZero() || t.renewing > 0 || closed(t.done):
	case at.After(t.deadline):
		w.violated("deadline", "S1: p%d believes in %s for %v longer than it may", t.process.id, t.key, at.Sub(t.deadline))
	case at.Before(t.deadline):
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
	t := w.tenures[tenureID{l.Key, l.Owner, l.Token}]
	if t == nil {
		w.violated("told", "p%d lost %s with token %d, which was never granted", p.id, l.Key, l.Token)
		return
	}
	w.note("p%d lost %s: %v", p.id, l.Key, info.Err)
	if t.told != nil {
		w.violated("told", "rule 6: p%d is told twice that %s is lost", p.id, t.key)
	}
	t.told, t.toldAt = info.Err, time.Now()
	most := p.plan.failures()
	switch reason := info.Err.Reason; {
	case w.plan.lossless():
		w.violated("told", "L0, L1: p%d lost %s: %v", p.id, t.key, info.Err)
	case reason == renewal.NotOwned && !t.denied:
		w.violated("told", "rule 4: p%d is told that the store has %s no more, which it did not say", p.id, t.key)
	case reason == renewal.NotOwned && w.has(t) && !t.void && !w.plan.forgets(): // a clock that is set back brings it back
		w.violated("told", "rule 4: p%d is told that it lost %s, which the server has for it", p.id, t.key)
	case t.turning || t.unsure:
	case reason == renewal.Failed && (most < 1 || t.failures < most):
		w.violated("told", "rule 3: p%d is told of %s after %d failures of %d", p.id, t.key, t.failures, most)
	case reason == renewal.Expired && time.Now().Before(t.deadline):
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

// look holds what a handle says against the keys of the server. It may be called at
// any instant.
func (w *world) look(t *tenure) {
	if !t.handle().Valid() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("holding")
	left := w.lasts(t)
	switch believes := time.Until(t.handle().Deadline()); {
	case !t.void && believes > left && t.handle().Valid():
		w.violated("holding", "S1: the handle of p%d is valid for %v, the server has %s for it for %v", t.process.id, believes, t.key, left)
	case !t.void && left == 0 && t.handle().Valid():
		w.violated("holding", "S1: the handle of p%d is valid, but the server does not have %s for it, deadline in %v",
			t.process.id, t.key, time.Until(t.handle().Deadline()))
	case t.void && time.Since(t.voidAt) >= t.process.plan.ttl && !w.has(t):
		w.violated("holding", "p%d still believes in %s a TTL after the server lost it", t.process.id, t.key)
	case t.told != nil && t.handle().Valid():
		w.violated("holding", "S5: the handle of p%d is valid after its loss was told", t.process.id)
	}
}

// watch follows a lease to its end, and looks at it around each of its deadlines.
func (w *world) watch(t *tenure) {
	for {
		at := t.handle().Deadline()
		if at.IsZero() || !sleepUntil(at.Add(-1), t.done) {
			return
		}
		w.look(t)
		// Its holder may give it back at this very instant: then Deadline is zero.
		if !t.handle().Valid() && at.Equal(t.handle().Deadline()) && time.Until(at) > 0 {
			w.fail("deadline", "L0: the handle of p%d is not valid %v before its deadline", t.process.id, time.Until(at))
		}
		sleepUntil(at, nil)
		if t.handle().Deadline().After(time.Now()) {
			continue // it was renewed
		}
		if t.handle().Valid() {
			w.fail("deadline", "S2: the handle of p%d is valid at its deadline", t.process.id)
		}
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
		late := end.Add(time.Second + 3*tick)
		if !still || !late.After(by) {
			break
		}
		by = late
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("told")
	if !closed(t.done) {
		w.violated("told", "S2: p%d was not told by %v after the deadline that it lost %s", t.process.id, time.Since(since), t.key)
	}
}

// probing looks at everything at random instants.
func (w *world) probing() {
	d := chance.New(w.plan.seed, 7)
	for !w.over() {
		time.Sleep(d.UpTo(w.plan.ttl / 2))
		w.mu.Lock()
		w.compareAll()
		var all []*tenure
		for _, t := range w.tenures {
			if t.handle() != nil {
				all = append(all, t)
			}
		}
		w.hungry()
		w.ends()
		w.mu.Unlock()
		for _, t := range all {
			w.look(t)
		}
		w.tidies()
		for _, p := range w.procs {
			p.probe()
		}
	}
}

// ends checks that every key has an end. The caller holds mu.
func (w *world) ends() {
	w.check("ends")
	if _, endless := w.left(); len(endless) > 0 {
		w.violated("ends", "L2: keys without an end: %q", endless)
	}
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
	if s.Renewal.InFlight > most && !w.plan.quorum() || s.Waiting < 0 || s.Cleaning < 0 || s.Renewal.Held < s.Renewal.Due {
		w.violated("stats", "R3: %+v", s)
	}
}

// waiter is a call of Lock that has no lock yet.
type waiter struct {
	key     string
	process *process
	since   time.Time
}

// timeout is how long a request of redisstore is waited for.
const timeout = 3 * time.Second

// hungry checks that no lock is free for long while somebody waits for it. The
// caller holds mu.
func (w *world) hungry() {
	if w.plan.quorum() {
		return // nobody waits there, all try
	}
	bound := place(2*w.plan.ttl)/3 + time.Second
	switch w.plan.class {
	case calm:
	case external: // some requests are lost, and waited for
		bound += 3 * timeout
	default:
		return
	}
	for waiting := range w.waiters {
		since, free := w.freeSince[waiting.key]
		if !free {
			continue
		}
		w.check("waiting")
		since = later(since, waiting.since)
		most := bound
		if p := waiting.process.plan; p.handovers > 0 { // who is behind a holder waits until that one is told
			most += p.ttl
		}
		if time.Since(since) > most {
			w.violated("waiting", "L3: %s is free for %v while somebody waits", waiting.key, time.Since(since))
		}
	}
}

// tidy is asked of schedules in which nothing that was released comes back: no
// message is doubled, no data lost, no clock stepped.
func (p plan) tidy() bool {
	return !p.quorum() && p.class != network && p.class != everything && p.class != dataLoss && p.class != clocks
}

// tidies checks that the server has no lock for nobody: none of an acquisition that
// was given up, none that was unlocked, unless its client is still at work on it.
func (w *world) tidies() {
	if !w.plan.tidy() {
		return
	}
	for _, p := range w.procs {
		if p.client.Stats().Cleaning > 0 {
			continue
		}
		w.mu.Lock()
		for _, key := range w.plan.names() {
			for _, l := range w.servers[0].holders(key) {
				w.check("tidy")
				w.tidiesOne(p, key, l)
			}
		}
		w.mu.Unlock()
	}
}

func (w *world) tidiesOne(p *process, key string, l lease) {
	t := w.tenures[w.idOf(key, l.owner, l.token)]
	switch {
	case t == nil || t.process != p || p.crashed || p.closed:
	case p.locking > 0 || p.lateAnswersTo[t.owner]: // it may be at it, or have given up after a TTL
	case w.holds(t.owner): // by an older token, and will be told so
	case p.returning(): // in the background, what a Multi got before its context ended
	case t.handle() == nil || t.gone:
		// Stats were read before: since then it may have begun to release something.
		if p.client.Stats().Cleaning == 0 {
			w.violated("tidy", "L4: the server keeps %s for p%d, which has given it up", key, p.id)
		}
	}
}

// holds tells whether some handle of an owner was not unlocked. The caller holds mu.
func (w *world) holds(owner string) bool {
	for _, t := range w.tenures {
		if t.owner == owner && t.handle() != nil && !t.gone {
			return true
		}
	}
	return false
}

// errEnough ends the context of a user.
var errEnough = errors.New("whole: waited long enough")
