// MinHold: when a release keeps the lock taken.

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// keptUntil returns the lease with an instant until which its release keeps the lock taken.
func keptUntil(l driver.Lease, until time.Time) driver.Lease {
	var attrs driver.Attrs
	if l.Attrs != nil {
		attrs = *l.Attrs
	}
	attrs.KeepUntil = until
	l.Attrs = &attrs
	return l
}

// notKept returns the lease without that instant.
func notKept(l driver.Lease) driver.Lease {
	if l.Attrs == nil || l.Attrs.KeepUntil.IsZero() {
		return l
	}
	return keptUntil(l, time.Time{})
}

// complete begins the MinHold of a lock whose Multi has got all of its locks. Before that, no work is done under it, and a
// Close frees it at once.
func (h *Held) complete() {
	switch of := h.handle.(type) {
	case *heldLease:
		if hold := of.client.terms.MinHold; hold > 0 {
			until := time.Now().Add(hold)
			_ = of.entry.Update(renewal.Grant{}, func(l driver.Lease) driver.Lease { return keptUntil(l, until) })
		}
	case *multiHandle:
		for _, member := range of.members {
			member.complete()
		}
	}
}

// giveBack unlocks a lock that the caller of Lock does not get. Its MinHold does not apply,
// because no work was done. A handle that has entered a lock again is unlocked as ever, because the
// lock belongs to the first handle.
func (h *Held) giveBack(ctx context.Context) error {
	if g, several := h.handle.(*multiHandle); several && h.used.CompareAndSwap(false, true) {
		g.end(ErrNotHeld)
		return errors.Join(forEach(g.members, func(h *Held) error { return h.giveBack(ctx) })...)
	}
	s, first := h.handle.(*heldLease)
	if !first || !h.used.CompareAndSwap(false, true) {
		return h.Unlock(ctx)
	}
	return s.unlock(ctx, false)
}
