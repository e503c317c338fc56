// This file is about Export and Detach, with which a lease is left to another process.

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Export returns a string with which [Client.Resume] makes a handle of the same lease, also in
// another process. It does no IO and does not change this handle.
//
// The string is a secret: anyone who has it and may write to the store can renew and release the
// lock. It has at most about 4,000 bytes, plus the members of a Batch, at most about 1.5 MB. It is
// of use as long as the lease is held, however often that is renewed, but not after a Downgrade:
// export the reader again. It has the metadata and the rest of the MinHold, but no other Terms. The
// time until Resume does not shorten that rest, so export the lease right before you send the
// string.
//
// The error is that of Err if the handle has ended, and errors.ErrUnsupported for a lock with a
// StateTTL, and for a [Multi]: export each of its Handles.
func (h *Held) Export() (string, error) {
	if !h.ok() {
		return "", ErrNotHeld
	}
	if err := h.Err(); err != nil {
		return "", failed("export", h.Key(), err)
	}
	return h.handle.export()
}

// Detach ends the handle without releasing the lock, for a lease that another process has resumed
// or will resume; see [Held.Export]. It does no IO, and does not wait for a renewal that is under
// way. This client no longer renews the lease, and neither Unlock nor Close releases it: it ends
// with its TTL unless another process renews it.
//
// Detach ends all handles of the lease, and for a [Multi] those of all its locks; their Err is
// ErrDetached. If the handle had ended before, Detach returns its Err and changes nothing. Unlock
// then releases the locks that a Multi still holds. If a lock of a Multi is lost while Detach runs,
// Detach returns nil.
func (h *Held) Detach() error {
	if !h.ok() {
		return ErrNotHeld
	}
	if !h.used.CompareAndSwap(false, true) {
		return failed("detach", h.Key(), h.whyUsed())
	}
	if err := h.handle.detach(); err != nil {
		h.used.Store(false) // Unlock releases what the handle may still have
		return failed("detach", h.Key(), err)
	}
	return nil
}

func (s *heldLease) export() (string, error) {
	text, err := s.exportLease()
	if err != nil {
		return "", failed("export", s.key(), err)
	}
	return text, nil
}

func (s *heldLease) exportLease() (string, error) {
	exporter, ok := s.client.store.(driver.Exporter)
	if !ok {
		return "", errCannotExport
	}
	lease := s.entry.Lease()
	if lease.Stateful() {
		return "", fmt.Errorf("a lease with a state (Terms.StateTTL) cannot be exported, because its saves are numbered: %w", errors.ErrUnsupported)
	}
	state, err := exporter.Export(lease)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return "", errCannotExport
	case err != nil:
		return "", err
	case len(state) > driver.MaxStateLen:
		return "", fmt.Errorf("the store exports %d bytes, the limit is %d", len(state), driver.MaxStateLen)
	}
	e := exportedLease{lease: lease, rest: lease.Keep(), state: state}
	return e.encode(), nil
}

var errCannotExport = fmt.Errorf("the store cannot export its leases: %w", errors.ErrUnsupported)

func (s *heldLease) detach() error {
	s.dropped.Stop()
	if _, ended := s.entry.StopWith(ErrDetached); ended != nil {
		return s.state()
	}
	return nil
}

func (r *reentrantHandle) export() (string, error) { return r.of.export() }

func (r *reentrantHandle) detach() error {
	err := r.of.detach()
	_ = r.err() // ends the handle
	return err
}

func (g *multiHandle) export() (string, error) {
	return "", failed("export", g.key(), fmt.Errorf("a Multi has several leases, export each of Held.Handles: %w", errors.ErrUnsupported))
}

// detach ends the handle first, unless it has ended before. So either all members are detached,
// or none is and Unlock releases them.
func (g *multiHandle) detach() error {
	_ = g.err() // records a loss before Detach
	g.end(ErrDetached)
	if reason := context.Cause(g.ctx); reason != ErrDetached { //nolint:errorlint // the Detach of one member is another reason, with its key
		return reason
	}
	g.detachMembers()
	return nil
}

// detachMembers detaches all members that have not ended. A member that ends meanwhile counts as
// ended after Detach, so its error does not keep the others.
func (g *multiHandle) detachMembers() {
	for _, h := range g.members {
		inner, several := h.handle.(*multiHandle)
		if !several {
			_ = h.Detach()
			continue
		}
		if h.used.CompareAndSwap(false, true) {
			inner.end(ErrDetached)
			inner.detachMembers()
		}
	}
}

// resumeKind returns the kind of lock that Hooks see for a lease in a mode. What the exporting
// process called an Election or a Reentrant is a mutex.
func resumeKind(m driver.Mode) Kind {
	switch m {
	case driver.Read:
		return KindRead
	case driver.Write:
		return KindWrite
	case driver.Permit:
		return KindSemaphore
	case driver.Members:
		return KindBatch
	}
	return KindMutex
}
