// The checks of MinHold.

package sim

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// LongestHold returns the longest MinHold of all processes.
func (p *Plan) LongestHold() (longest time.Duration) {
	for _, one := range p.Procs {
		longest = max(longest, one.MinHold)
	}
	return longest
}

// ending records which locks are about to be released by their holders. MinHold counts only for
// handles that are valid then. The caller does not hold Mu.
func (w *World) ending(grants ...*Grant) {
	for _, g := range grants {
		valid := g.Handle().Valid()
		w.Mu.Lock()
		g.validAtEnd = valid
		w.Mu.Unlock()
	}
}

// releasing checks that a release asks for no more than the rest of MinHold, and for none if the
// lock was lost before. The caller does not hold Mu.
func (w *World) releasing(p *Process, l driver.Lease) {
	if p.Plan.MinHold == 0 || l.Attrs == nil || l.Attrs.KeepUntil.IsZero() {
		return
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("rest of MinHold")
	g := w.Grants[GrantID{l.Key, l.Owner, l.Token}]
	switch held := g != nil && g.Handle() != nil; {
	case !held && p.Closed: // Close does not distinguish a lock acquired by a Multi so far from others
	case !held:
		w.Violated("kept", "H2: p%d keeps %s taken, which no user has got", p.ID, l.Key)
	case g.loss != nil && g.loss.Reason != renewal.ReasonLimitReached && g.lossAt.Before(time.Now()):
		w.Violated("kept", "H2: p%d keeps %s taken, although it had lost the lock: %v", p.ID, l.Key, g.loss.Reason)
	case l.Attrs.KeepUntil.After(Later(g.ConfirmedAt, g.whole).Add(p.Plan.MinHold)):
		w.Violated("kept", "H2: p%d keeps %s taken for %v too long", p.ID, l.Key, l.Attrs.KeepUntil.Sub(g.ConfirmedAt)-p.Plan.MinHold)
	}
}

// confirmedEnd records that the servers have confirmed the end of a lease. If MinHold has not passed,
// nobody may get the lock before. A lease that had expired before, and that a late request of the
// same owner took again, does not count. The caller holds Mu.
func (w *World) confirmedEnd(p *Process, l driver.Lease) {
	g := w.Grants[GrantID{l.Key, l.Owner, l.Token}]
	if g == nil || !g.validAtEnd || p.Plan.MinHold == 0 {
		return
	}
	for _, again := range w.Grants {
		if again.Key == g.Key && again.Owner == g.Owner && again.at.After(g.at) {
			return
		}
	}
	g.keptUntil = g.ConfirmedAt.Add(p.Plan.MinHold)
	w.Counts.Operations["kept"]++
	for _, by := range w.Grants {
		if by != g && by.at.After(g.ConfirmedAt) {
			w.checkKept(g, by)
		}
	}
}

// checkKept checks that a grant does not break the MinHold of a lock that was released. The rest
// of MinHold counts on the clock of the server, which may be wrong by a hundredth. The caller
// holds Mu.
func (w *World) checkKept(g, by *Grant) {
	conflicts := g.Key == by.Key && (g.Mode != Members || by.Mode != Members || overlap(g.Members, by.Members))
	if g.Void || !conflicts || g.keptUntil.IsZero() {
		return
	}
	w.Check("kept")
	allowed := g.Process.Plan.MinHold/100 + time.Millisecond
	if early := g.keptUntil.Sub(by.at); early > allowed {
		w.Violated("kept", "H1: %s is granted to p%d %v before the MinHold of p%d has passed", by.Key, by.Process.ID, early, g.Process.ID)
	}
}
