// MinHold: which locks can have one, and when a release keeps the lock
// taken.

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// checkMinHold refuses terms with a MinHold if the store cannot keep a released lock.
func (c *core) checkMinHold(t Terms) error {
	if t.MinHold > 0 && !c.canKeep(driver.Exclusive) {
		return fmt.Errorf("lock: the store cannot keep a lock after its release (Terms.MinHold): %w", errors.ErrUnsupported)
	}
	return nil
}

// checkKept refuses a request that cannot have a MinHold, which the client has. Readers, writers and
// permits share a key, so "taken until then" would not mean that the work is done once.
func (c *Client) checkKept(m driver.Mode) error {
	switch {
	case m == driver.Exclusive:
		return nil
	case !canHaveMinHold(m):
		return fmt.Errorf("a %s cannot have a MinHold: %w", kindOf(m), errors.ErrUnsupported)
	case !c.canKeep(m):
		return fmt.Errorf("the store cannot keep a batch after its release (Terms.MinHold): %w", errors.ErrUnsupported)
	}
	return nil
}

func canHaveMinHold(m driver.Mode) bool { return m == driver.Exclusive || m == driver.Members }

func (c *core) canKeep(m driver.Mode) bool {
	return c.can.Keeps.Has(m)
}

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

// markPartial notes the owner of a lock that a Multi acquires. Until the Multi has got all of its
// locks, no work is done under this one, so Close does not apply its MinHold.
func (c *core) markPartial(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partial[owner] = struct{}{}
}

// unmarkPartial is called when the Multi is complete, or does not get the lock or gives it back.
func (c *core) unmarkPartial(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.partial, owner)
}

// freePartial removes the MinHold of leases whose Multi has not got all of its locks.
func (c *core) freePartial(leases []driver.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range leases {
		if _, partial := c.partial[l.Owner]; partial {
			leases[i] = notKept(l)
		}
	}
}

// complete is called for the locks of a Multi that has got them all.
func (h *Held) complete() {
	switch of := h.handle.(type) {
	case *heldLease:
		of.client.unmarkPartial(of.entry.Lease().Owner)
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
	err := s.unlock(ctx, false)
	if endOf(err) != endClosed { // otherwise Close releases it
		h.complete()
	}
	return err
}
