package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Held is a lock that was got: the handle of one acquisition. It is renewed until
// Unlock, until it is lost, or until the client is closed. All methods are safe
// for concurrent use, from any goroutine. The zero Held is one that is not held.
type Held struct {
	core  *core
	entry *renewal.Entry[Lease]
	used  atomic.Bool // by Unlock
}

// unlockTimeout bounds one Unlock.
const unlockTimeout = 3 * time.Second

// Unlock gives the lock back. It returns nil once the store has confirmed it; at
// most 3 s, or one TTL if that is less, are spent on it, whether or not ctx has
// ended. If the store could not be reached by then the error says so, and the
// release goes on in the background until it is confirmed or the TTL has passed.
// In any case the lock is not renewed any more, and this handle is done.
//
// A lock that was lost before returns its *renewal.LostError, so that the caller
// learns that the work was not protected to its end. A second Unlock returns
// ErrNotHeld. Neither touches what others hold by then. A nil ctx counts as
// context.Background(). Unlock may be called from the function given to Do.
func (h *Held) Unlock(ctx context.Context) error {
	if h == nil || h.entry == nil {
		return ErrNotHeld
	}
	lease := h.entry.Lease()
	if !h.used.CompareAndSwap(false, true) {
		return fmt.Errorf("lock: unlock %s: %w", quoted(lease.Key), ErrNotHeld)
	}
	if err := h.core.begin(); err != nil { // Close releases it, if it was not lost before
		return fmt.Errorf("lock: unlock %s: %w", quoted(lease.Key), cmp.Or(h.Err(), err))
	}
	defer h.core.done()
	if !h.entry.Stop() {
		return h.unlockEnded(lease)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(unlockTimeout, lease.TTL))
	defer cancel()
	if err := h.core.release(ctx, lease); err != nil {
		return fmt.Errorf("lock: unlock %s: %w", quoted(lease.Key), err)
	}
	return nil
}

// unlockEnded is Unlock of a lock that has ended. It may still be there on the
// store, where it would keep others waiting to the end of its TTL.
func (h *Held) unlockEnded(lease Lease) error {
	err := h.Err()
	var lost *renewal.LostError
	if !errors.As(err, &lost) || lost.Reason != renewal.NotOwned {
		h.core.cleaner.add(lease)
	}
	return fmt.Errorf("lock: unlock %s: %w", quoted(lease.Key), err)
}

// release gives a lease back that was held until now. A first try without an
// answer is repeated; then an answer of ErrNotHeld means that the first one was
// executed.
func (c *core) release(ctx context.Context, lease Lease) error {
	err := c.store.Release(ctx, lease)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotHeld):
		return &renewal.LostError{Reason: renewal.NotOwned, Err: err}
	}
	if ctx.Err() == nil {
		if again := c.store.Release(ctx, lease); again == nil || errors.Is(again, ErrNotHeld) {
			return nil
		}
	}
	c.cleaner.add(lease)
	return fmt.Errorf("not confirmed yet: %w", err)
}

// Valid reports whether the lock is held at this very moment. It looks at the
// clocks and does no IO, so it is right after a pause of the process, when no
// timer has run yet. Ask it right before a step that needs the lock.
func (h *Held) Valid() bool {
	return h != nil && h.entry != nil && h.entry.Valid()
}

// Err returns nil while the lock is held, and then why it is not: a
// *renewal.LostError, ErrNotHeld after Unlock, ErrClosed after the client's
// Close. Like Valid it looks at the clocks. The answer never changes any more.
func (h *Held) Err() error {
	if h == nil || h.entry == nil {
		return ErrNotHeld
	}
	err := h.entry.Err()
	switch {
	case errors.Is(err, renewal.ErrStopped):
		return ErrNotHeld
	case errors.Is(err, renewal.ErrClosed):
		return ErrClosed
	}
	return err
}

// Done returns a channel that is closed when the lock is held no more, for
// whatever reason; Err tells which. It is a notification and no proof: see Valid.
func (h *Held) Done() <-chan struct{} {
	if h == nil || h.entry == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return h.entry.Done()
}

// Deadline returns the instant up to which the lock is held unless it is renewed
// before, the zero Time once it is not held. Renewals move it.
func (h *Held) Deadline() time.Time {
	if h == nil || h.entry == nil {
		return time.Time{}
	}
	return h.entry.Deadline()
}

// Token returns the fencing token: higher than that of every earlier holder of
// this key. A resource that is given the token with each request, and refuses
// tokens below the highest that it has seen, is safe from holders that do not
// know yet that they lost the lock. It is 0 for a store that has none.
func (h *Held) Token() uint64 {
	if h == nil || h.entry == nil {
		return 0
	}
	return h.entry.Lease().Token
}

// Key returns the key of the lock.
func (h *Held) Key() string {
	if h == nil || h.entry == nil {
		return ""
	}
	return h.entry.Lease().Key
}

// Context returns a copy of parent that also ends when the lock is held no more;
// context.Cause then tells why, as Err does. The CancelFunc ends the context
// without touching the lock and must be called to free what it takes. No
// goroutine exists for it while the lock is held.
func (h *Held) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancelCause(parent)
	if h == nil || h.entry == nil {
		cancel(ErrNotHeld)
		return ctx, func() {}
	}
	if err := h.Err(); err != nil {
		cancel(err)
		return ctx, func() {}
	}
	stop := h.entry.AfterFunc(func() { cancel(h.Err()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// String names the lock, for messages; the owner is not in it.
func (h *Held) String() string {
	if h == nil || h.entry == nil {
		return "lock not held"
	}
	return h.entry.Lease().String()
}
