// Handing a lease to another process: Export, Detach and Resume.

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Export returns a string with which [Client.Resume] makes a handle of the same lease, also in
// another process. It does no IO and does not change this handle.
//
// The string is a secret: anyone who has it and may write to the store can renew and release the
// lock. It has at most about 4,000 bytes, holds the metadata, and is of use as long as the lease is
// held.
//
// The error is that of Err if the handle has ended. It is errors.ErrUnsupported for a reader, a
// writer, permits, a Batch, a [Multi], an inner handle of a Reentrant, and a lock with a MinHold, a
// StateTTL or Yields.
func (h *Held) Export() (string, error) {
	s, err := h.exportable("export")
	if err != nil {
		return "", err
	}
	if err := h.Err(); err != nil {
		return "", failed("export", h.Key(), err)
	}
	return encodeExported(s.entry.Lease()), nil
}

// Detach ends the handle without releasing the lock, for a lease that another process resumes; see
// [Held.Export]. It does no IO.
//
// Detach ends all handles of the lease. A handle that has ended returns its Err. A lock that Export
// does not support stays held, with the error of Export.
func (h *Held) Detach() error {
	s, err := h.exportable("detach")
	if err != nil {
		return err
	}
	if !h.used.CompareAndSwap(false, true) {
		return failed("detach", h.Key(), h.whyUsed())
	}
	s.dropped.Stop()
	if _, held := s.entry.Stop(ErrDetached); !held {
		h.used.Store(false) // Unlock releases what the lease may still have
		return failed("detach", h.Key(), s.state())
	}
	return nil
}

// exportable returns the lease of the handle, or why no other process can take it over.
func (h *Held) exportable(verb string) (*heldLease, error) {
	if !h.ok() {
		return nil, ErrNotHeld
	}
	s, ok := h.handle.(*heldLease)
	var err error
	if ok {
		err = s.client.canMove(s.entry.Lease())
	} else {
		err = fmt.Errorf("neither a Multi nor an inner handle of a Reentrant lock can be exported: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, failed(verb, h.Key(), err)
	}
	return s, nil
}

// canMove returns an error if the store or the terms keep a lease in one process.
func (c *Client) canMove(lease driver.Lease) error {
	switch {
	case lease.Mode != driver.Exclusive:
		return fmt.Errorf("a %s cannot be exported, only a lock with one holder: %w", kindOf(lease.Mode), errors.ErrUnsupported)
	case lease.Stateful():
		return fmt.Errorf("a lease with a state (Terms.StateTTL) cannot be exported, because its saves are numbered: %w", errors.ErrUnsupported)
	case lease.Yields():
		return fmt.Errorf("a lease that yields (Terms.Yields) cannot be exported: %w", errors.ErrUnsupported)
	case c.terms.MinHold > 0:
		return fmt.Errorf("a lease with a MinHold cannot be exported, because its rest is on the clock of one process: %w", errors.ErrUnsupported)
	}
	_, err := c.store.Import(lease)
	return err
}

// Resume returns a handle of the lease that [Held.Export] has exported, in this or another process.
// It renews the lease once; the deadline counts from the sending of that request. Token and
// metadata are those of the lease. TTL, Fixed and MaxHold of this client count from now on: a
// longer TTL extends the lease, a shorter one takes nothing away. The handle has no state and does
// not yield.
//
// Until one process calls [Held.Detach], both renew the lock. The first Unlock releases it for
// both; the other process learns it at its next renewal.
//
// The error is ErrNotHeld if this store no longer has the lease; ErrBadExport, before any IO, for a
// string that was cut off or changed; errors.ErrUnsupported if this client has a MinHold, or if its
// store cannot take leases over; and otherwise one of [Client.Inspect]. After an error the lease is
// as it was, or renewed once more. Resume takes at most two TTLs. No error shows the string.
func (c *Client) Resume(ctx context.Context, exported string) (*Held, error) {
	if !c.ok() {
		return nil, errZeroClient
	}
	if ctx == nil {
		return nil, basic.ErrNilContext
	}
	lease, err := decodeExported(exported)
	switch {
	case err != nil:
		return nil, err
	case c.wrong != nil:
		return nil, c.wrong
	}
	resume := func(ctx context.Context) (*Held, error) {
		held, err := c.resume(ctx, lease)
		if err != nil {
			return nil, failed("resume", lease.Key, err)
		}
		return held, nil
	}
	if o := c.observe(KindMutex); o != nil {
		return o.call(ctx, lease.Key, resume)
	}
	return resume(ctx)
}

func (c *Client) resume(ctx context.Context, lease driver.Lease) (*Held, error) {
	if ctx.Err() != nil {
		return nil, causeOf(ctx)
	}
	if !c.gate.Enter() {
		return nil, ErrClosed
	}
	defer c.gate.Leave()
	if c.terms.MinHold > 0 {
		return nil, fmt.Errorf("a client with a MinHold cannot resume a lock: %w", errors.ErrUnsupported)
	}
	lease.TTL = c.terms.TTL
	lease, err := c.store.Import(lease)
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, stop := c.whileOpen(caller)
	defer stop()
	for range 1 + maxFailures {
		held, failure := c.tryResume(ctx, lease)
		switch {
		case failure == nil:
			return held, nil
		case isAnswer(failure), isDefinite(failure):
			return nil, failure
		}
		err = failure
		if ctx.Err() != nil {
			break
		}
	}
	return nil, c.reveal(caller, err)
}

// tryResume renews the lease once and registers it with the watchdog.
func (c *Client) tryResume(ctx context.Context, lease driver.Lease) (*Held, error) {
	bound := c.watchdog.Validity(lease.TTL)
	ctx, cancel := context.WithTimeoutCause(ctx, bound, driver.NoAnswerError(bound))
	defer cancel()
	sent, outcome, err := c.renewOnce(ctx, lease)
	switch {
	case outcome.IsLost():
		return nil, ErrNotHeld
	case outcome != renewal.Renewed:
		return nil, err
	}
	lease.Sent = sent
	return c.register(lease, sent)
}
