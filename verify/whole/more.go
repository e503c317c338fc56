package whole

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// moreFrom is the first seed of the schedules in which there is more: elections, looks
// at locks, forced releases, and locks that are passed on within a client. Those below
// stay as they were, and so do the seeds that once showed something.
const moreFrom = 1 << 32

// addMore makes room for it: more users of each client, who can pass a lock on.
func (p *plan) addMore() {
	d := chance.New(p.seed, 10)
	p.more = true
	for i := range p.procs {
		p.procs[i].users += d.IntN(3)
		if !p.quorum() { // whose grants have no token to know a lease by that is passed on
			p.procs[i].handovers = chance.Pick(d, 0, 1, 2, 16)
		}
	}
}

// forces tells whether somebody may take locks away. Those of a quorum stay: what some
// of its servers do breaks none of its promises, but those of its oracles.
func (p plan) forces() bool {
	return !p.quorum() && (p.class == external || p.class == endings || p.class == everything)
}

// more does what only schedules with more have, or returns false.
func (u *user) more(key string, isExclusive, wait bool) bool {
	switch n := u.dice.IntN(10); {
	case n < 2 && isExclusive:
		u.campaigns(key, wait)
	case n == 2:
		u.inspects(key)
	case n == 3 && u.world.plan.forces():
		u.forces(key)
	default:
		return false
	}
	return true
}

// campaigns leads for a while, and looks whether others would see that.
func (u *user) campaigns(key string, wait bool) {
	name := fmt.Sprintf("user %d of p%d", u.id, u.process.id)
	e := u.client.Election(key, name)
	held := u.acquire("campaign", e, key, wait)
	if held == nil {
		return
	}
	t := u.begin(held)
	if t == nil {
		return
	}
	u.leads(e, name, t)
	u.hold(t, u.howLong())
	u.unlock(held, t)
}

// leads checks that who leads from before a look to after it is seen to do so.
func (u *user) leads(e *lock.Election, name string, t *tenure) {
	w, sure := u.world, u.sureOf(t)
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.plan.ttl, errEnough)
	defer cancel()
	leader, err := e.Leader(ctx)
	sure = sure && u.sureOf(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("p%d sees that %q leads by %d: %v", u.process.id, leader.Name, leader.Term, err)
	w.counts.Operations["leader"]++
	if err != nil || !sure || w.plan.quorum() && w.plan.class != calm { // of which members may be silent
		return
	}
	w.check("leader")
	if leader.Name != name || leader.Term != t.token {
		w.violated("leader", "p%d leads by %s, but is shown %+v", u.process.id, t.key, leader)
	}
}

// sureOf tells whether a lease is one that the server must have. It holds the world's
// mu for a moment.
func (u *user) sureOf(t *tenure) bool {
	valid := t.handle() != nil && t.handle().Valid()
	u.world.mu.Lock()
	defer u.world.mu.Unlock()
	return valid && !t.void
}

// inspects looks at a lock: who surely holds it must be seen, and nobody who was never
// granted it.
func (u *user) inspects(key string) {
	w := u.world
	var sure []*tenure
	for _, t := range w.tenuresOf(key) {
		if u.sureOf(t) {
			sure = append(sure, t)
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.plan.ttl, errEnough)
	defer cancel()
	info, err := u.client.Inspect(ctx, key)
	for i, t := range sure {
		if !u.sureOf(t) {
			sure[i] = nil
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("p%d sees %d holders of %s, %d wait: %v", u.process.id, info.Held, key, info.Waiting, err)
	w.counts.Operations["inspect"]++
	if err != nil || w.plan.quorum() {
		return
	}
	w.check("inspected")
	shown := map[uint64]bool{}
	for _, h := range info.Holders {
		shown[h.Token] = true
		longest := 2 * w.plan.ttl
		if h.ExpiresIn <= 0 || h.ExpiresIn > longest && w.plan.class != clocks && w.plan.class != everything {
			w.violated("inspected", "%s is held for %v", key, h.ExpiresIn)
		}
		if w.grantOf(key, h.Token) == nil {
			w.violated("inspected", "%s is held by token %d, which was never granted", key, h.Token)
		}
	}
	for _, t := range sure {
		if t != nil && !shown[t.token] {
			w.violated("inspected", "p%d holds %s by token %d, but the holders shown are %+v", t.process.id, key, t.token, info.Holders)
		}
	}
}

// tenuresOf returns the grants of a lock.
func (w *world) tenuresOf(key string) []*tenure {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*tenure
	for _, t := range w.tenures {
		if t.key == key {
			all = append(all, t)
		}
	}
	return all
}

// grantOf returns the grant of a token, nil if there was none. The caller holds mu.
func (w *world) grantOf(key string, token uint64) *tenure {
	for id, t := range w.tenures {
		if id.key == key && id.token == token {
			return t
		}
	}
	return nil
}

// forces takes a lock away from whoever has it. The server's part in it is in execute;
// that its holders hear of it is checked as it is of any lease that the server lost.
func (u *user) forces(key string) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.plan.ttl, errEnough)
	defer cancel()
	begun := time.Now()
	err := u.client.ForceRelease(ctx, key)
	late := time.Since(begun) - u.plan.ttl
	w := u.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("p%d forces the release of %s: %v", u.process.id, key, err)
	w.counts.Operations["force"]++
	if _, still := u.gate.StoodStill(begun); late > 0 && !still {
		w.violated("answer", "L4: p%d forces the release of %s %v after its context ended", u.process.id, key, late)
	}
}

// passes: another user of the same client has a lease that was unlocked. The caller
// holds mu.
func (w *world) passes(t *tenure) *tenure {
	p := t.process
	w.counts.Operations["passed on in the client"]++
	w.check("passed in the client")
	switch {
	case t.unlocked.IsZero() || t.handle().Valid() || t.passed:
		w.violated("passed in the client", "S1: p%d has two holders of %s by token %d", p.id, t.key, t.token)
	case t.row >= p.plan.handovers:
		w.violated("passed in the client", "p%d has passed %s on %d times in a row, the most is %d", p.id, t.key, t.row+1, p.plan.handovers)
	case t.told != nil || t.denied && t.deniedAt.Before(t.unlocked): // later it is an answer to nobody
		w.violated("passed in the client", "S5: p%d has passed %s on, which was lost", p.id, t.key)
	}
	return w.succeeds(t, t.row+1)
}

// succeeds: a lease goes on with its next holder in the same client, the latest of so
// many in a row. The caller holds mu.
func (w *world) succeeds(t *tenure, row int) *tenure {
	t.passed = true
	next := t.continues()
	next.row, next.failures = row, t.failures
	w.tenures[t.tenureID] = next
	return next
}

// passing tells whether a lock may be with somebody who has not got all that they ask
// for, as the members of a Multi are. The caller holds the world's mu.
func (p *process) passing() bool { return p.plan.handovers > 0 && p.locking > 0 }

// goneOrPassed checks, when whoever got a lock from its last holder has begun, that a
// lock that was unlocked is theirs or nobody's.
func (w *world) goneOrPassed(t *tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !t.passed && !t.process.passing() && w.has(t) && !w.plan.forgets() {
		w.violated("unlock", "S6: p%d unlocked %s, and the server still has it", t.process.id, t.key)
	}
}
