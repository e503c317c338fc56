// The state that a holder leaves to the next one: Save, State and Forget.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Save replaces the state of the key, which the next holder finds in [Held.State], and returns nil
// once the store has confirmed that. It needs Terms.StateTTL. A holder that has lost its lock
// cannot replace what a later holder has saved, however late its request is executed. Of two calls
// at a time, the one that began later wins.
//
// Errors are those of [Held.Renew]. After ErrLost nothing was saved, unless a try of the call was
// executed without an answer. After ErrUnavailable or the end of ctx the lock is held as before,
// and the state may be the old or the new one. Save returns at the deadline of the lease at the
// latest, so after an effect that must be recorded, call it with context.WithoutCancel.
//
// Data of more than MaxSavedLen bytes, and a handle without a state, are refused before any IO.
// Each of the Handles of a Multi may have a state.
func (h *Held) Save(ctx context.Context, data []byte) error {
	switch {
	case !h.ok():
		return ErrNotHeld
	case ctx == nil:
		return failed("save", h.Key(), basic.ErrNilContext)
	case h.used.Load():
		return failed("save", h.Key(), ErrNotHeld)
	}
	if err := h.handle.save(ctx, data); err != nil {
		return failed("save", h.Key(), err)
	}
	return nil
}

// State returns what the last holder had saved when this lock was granted, and the token of that
// holder. It does no IO. A Save by this handle does not change it.
//
// The token is 0 if there was no state. Empty data are nil.
func (h *Held) State() (data []byte, token uint64) {
	if saved := h.lease().saved(); saved != nil {
		return append([]byte(nil), saved.Data...), saved.Token
	}
	return nil, 0
}

// Forget removes the state of a key, if there is one, whether or not the lock is held. Call it when
// nobody holds the lock: otherwise a save of the holder that is executed late may come back. Errors
// are those of [Client.Inspect].
func (c *Client) Forget(ctx context.Context, key string) error {
	return c.about(ctx, "forget the state of", key, checkKey(key), func(ctx context.Context) error { return c.store.Forget(ctx, key) })
}

var errNoState = fmt.Errorf("the handle has no state; see Terms.StateTTL: %w", errors.ErrUnsupported)

func (s *heldLease) save(ctx context.Context, data []byte) error {
	lease := s.entry.Lease()
	switch {
	case !lease.Stateful():
		return errNoState
	case len(data) > MaxSavedLen:
		return fmt.Errorf("the state must have at most %d bytes, got %d", MaxSavedLen, len(data))
	}
	if err := s.state(); err != nil {
		return err
	}
	number := s.saves.Add(1)
	err := s.twice(ctx, func(ctx context.Context) (answered bool, err error) {
		began := time.Now()
		err = s.client.store.Save(ctx, lease, number, data, s.client.terms.StateTTL)
		v := driver.VerdictOf(err)
		s.client.health.record(err, v, began, false)
		return v.IsAnswer(), err
	})
	switch {
	case err == nil:
		return nil
	case driver.VerdictOf(err) == driver.NotHeld:
		s.entry.ReportLost(nil)
	}
	return cmp.Or(s.state(), s.client.reveal(ctx, err))
}

func (s *heldLease) saved() *driver.Saved { return s.entry.Lease().Saved }

func (g *multiHandle) save(context.Context, []byte) error { return errNoState }
func (g *multiHandle) saved() *driver.Saved               { return nil }
