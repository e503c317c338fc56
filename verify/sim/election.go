// Users that campaign, inspect locks and force releases.

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// Campaign leads for a while, and checks that observers would see it.
func (u *User) Campaign(key string, wait bool) {
	name := fmt.Sprintf("user %d of p%d", u.ID, u.Process.ID)
	e := u.Client.Election(key, name)
	held := u.Acquire("campaign", e, key, wait, u.Patience())
	if held == nil {
		return
	}
	g := u.Begin(held, wait)
	if g == nil {
		return
	}
	u.checkLeader(e, name, g)
	u.Hold(g, u.HoldTime(3))
	u.Unlock(held, g)
}

// checkLeader checks that an observer sees a user who leads before and after it looks.
func (u *User) checkLeader(e *lock.Election, name string, g *Grant) {
	w, sure := u.World, u.mustHave(g)
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.Plan.TTL, errEnough)
	defer cancel()
	leader, err := e.Leader(ctx)
	sure = sure && u.mustHave(g)
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Note("p%d sees that %q leads by %d: %v", u.Process.ID, leader.Name, leader.Term, err != nil)
	w.Counts.Operations["leader"]++
	if err != nil || !sure || w.Plan.Quorum && !w.Plan.Calm { // some servers may be silent
		return
	}
	w.Check("leader")
	if leader.Name != name || leader.Term != g.Token {
		w.Violated("leader", "p%d leads %s, but an observer sees %+v", u.Process.ID, g.Key, leader)
	}
}

// mustHave reports whether the server must have a lease.
func (u *User) mustHave(g *Grant) bool {
	valid := g.Handle() != nil && g.Handle().Valid()
	u.World.Mu.Lock()
	defer u.World.Mu.Unlock()
	return valid && !g.Void
}

// Inspect inspects a lock. The result must have every certain holder, and no owner to whom the
// lock was never granted.
func (u *User) Inspect(key string) {
	w := u.World
	var sure []*Grant
	for _, g := range w.grantsOf(key) {
		if u.mustHave(g) {
			sure = append(sure, g)
		}
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.Plan.TTL, errEnough)
	defer cancel()
	info, err := u.Client.Inspect(ctx, key)
	for i, g := range sure {
		if !u.mustHave(g) {
			sure[i] = nil
		}
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Note("p%d sees %d holders of %s, %d wait: %v", u.Process.ID, info.Held, key, info.Waiting, err != nil)
	w.Counts.Operations["inspect"]++
	if err != nil || w.Plan.Quorum {
		return
	}
	w.Check("inspected")
	shown := map[uint64]bool{}
	for _, h := range info.Holders {
		shown[h.Token] = true
		longest := 2 * w.Plan.TTL
		if h.ExpiresIn <= 0 || h.ExpiresIn > longest && !w.Plan.ServerMoves {
			w.Violated("inspected", "%s is held for %v", key, h.ExpiresIn)
		}
		if w.grantWith(key, h.Token) == nil {
			w.Violated("inspected", "%s is held by token %d, which was never granted", key, h.Token)
		}
	}
	for _, g := range sure {
		if g != nil && !shown[g.Token] {
			w.Violated("inspected", "p%d holds %s with token %d, but Inspect returns the holders %+v", g.Process.ID, key, g.Token, info.Holders)
		}
	}
}

// ForceRelease releases a lock that others hold. The backend voids their leases. The usual
// checks of lost leases show whether the holders learn of it.
func (u *User) ForceRelease(key string) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), u.Plan.TTL, errEnough)
	defer cancel()
	begun := time.Now()
	err := u.Client.ForceRelease(ctx, key)
	late := time.Since(begun) - u.Plan.TTL
	w := u.World
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Note("p%d forces the release of %s: %v", u.Process.ID, key, err != nil)
	w.Counts.Operations["force"]++
	if _, paused := u.Pauser.PausedSince(begun); late > prompt && !paused {
		w.Violated("answer", "L4: p%d forces the release of %s %v after its context ended", u.Process.ID, key, late)
	}
}
