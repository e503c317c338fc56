package lock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
)

// Held is a lock that was got: the handle of one acquisition. It is renewed, unless
// its [Terms] are Fixed, until Unlock, until it is lost, or until the client is closed.
// All methods are safe
// for concurrent use, from any goroutine. The zero Held is one that is not held.
type Held struct {
	hold hold        // nil: nothing is held
	used atomic.Bool // by Unlock
}

// stands tells whether the handle is one of an acquisition, not nil or the zero Held.
func (h *Held) stands() bool { return h != nil && h.hold != nil }

// errNoHandle is the answer to a Locker of other making that returns no handle of a
// lock, and no error.
var errNoHandle = fmt.Errorf("%w: Lock returned neither a handle nor an error", ErrNotHeld)

// hold is what a handle stands for: a lease (holding), one that was entered again
// (reentry), or several (group). All methods are safe for concurrent use.
type hold interface {
	unlock(ctx context.Context) error // is called once
	valid() bool
	err() error
	done() <-chan struct{}
	deadline() time.Time
	token() uint64
	key() string
	names() []string // of the members of a batch
	logger() *slog.Logger
	String() string                        // without the owner
	afterFunc(f func()) (stop func() bool) // as renewal.Entry has it

	// refresh gives a new lease its full TTL again, unless it is fresh.
	refresh(ctx context.Context) error

	// carry returns a ctx that Reentrant and Batch find h in.
	carry(ctx context.Context, h *Held) context.Context
}

// Unlock gives the lock back. It returns nil once the store has confirmed it; at
// most 3 s, or one TTL if that is less, are spent on it, whether or not ctx has
// ended. If the store could not be reached by then the error says so, and the
// release goes on in the background until it is confirmed or the TTL has passed.
// In any case the lock is not renewed any more, and this handle is done. A lock
// that a [Reentrant] has entered again stays held until the last of its handles is
// unlocked; the others do no IO.
//
// The error of a lock that was lost before matches ErrLost, see Err, so that the
// caller learns that the work was not protected to its end. A second Unlock returns
// ErrNotHeld, one after the client's Close ErrClosed. None of them touches what others
// hold by then. A nil ctx counts as context.Background(). Unlock may be called from
// the function given to Do.
func (h *Held) Unlock(ctx context.Context) error {
	if !h.stands() {
		return ErrNotHeld
	}
	if !h.used.CompareAndSwap(false, true) {
		return failed("unlock", h.Key(), ErrNotHeld)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	return h.hold.unlock(ctx)
}

// Valid reports whether the lock is held at this very moment. It looks at the
// clocks and does no IO, so it is right after a pause of the process, when no
// timer has run yet. Ask it right before a step that needs the lock.
func (h *Held) Valid() bool {
	return h.stands() && h.hold.valid()
}

// Err returns nil while the lock is held, and then why it is not: an error that
// matches ErrLost, names the key and wraps a *renewal.LostError; ErrNotHeld after
// Unlock; ErrClosed after the client's Close. That of a Multi is of the first of its
// members that ended. Like Valid it looks at the clocks. The answer never changes any
// more.
func (h *Held) Err() error {
	if !h.stands() {
		return ErrNotHeld
	}
	return h.hold.err()
}

// Done returns a channel that is closed when the lock is held no more, for
// whatever reason; Err tells which. It is a notification and no proof: see Valid.
func (h *Held) Done() <-chan struct{} {
	if !h.stands() {
		done := make(chan struct{})
		close(done)
		return done
	}
	return h.hold.done()
}

// Deadline returns the instant up to which the lock is held unless it is renewed
// before, the zero Time once it is not held. Renewals move it.
func (h *Held) Deadline() time.Time {
	if !h.stands() {
		return time.Time{}
	}
	return h.hold.deadline()
}

// Token returns the fencing token: higher than that of every earlier holder of
// this key. A resource that is given the token with each request, and refuses
// tokens below the highest that it has seen, is safe from holders that do not
// know yet that they lost the lock. Holders to whom a lock was passed on within their
// client (Options.LocalHandovers) have the token of the first of them, so a resource
// cannot tell those apart. It is 0 for a store that has none, and for a Multi, or a
// Batch within several, whose Members have tokens.
func (h *Held) Token() uint64 {
	if !h.stands() {
		return 0
	}
	return h.hold.token()
}

// Members returns the handles of the locks that a [Multi] holds, in the order in
// which it was given them: each has its own key, token and deadline. Unlocking one
// ends the whole. So it is of a [Batch] that was entered within several. Of any other
// lock the only member is h itself.
func (h *Held) Members() []*Held {
	if !h.stands() {
		return nil
	}
	if g, ok := h.hold.(*group); ok {
		return slices.Clone(g.members)
	}
	return []*Held{h}
}

// Names returns the names of the members that a [Batch] holds, sorted; nil of any
// other lock. The slice is shared and must not be changed.
func (h *Held) Names() []string {
	if !h.stands() {
		return nil
	}
	return h.hold.names()
}

// Key returns the key of the lock, for a Multi those of all, with commas between.
func (h *Held) Key() string {
	if !h.stands() {
		return ""
	}
	return h.hold.key()
}

// Context returns a copy of parent that also ends when the lock is held no more;
// context.Cause then tells why, as Err does. The CancelFunc ends the context
// without touching the lock and must be called to free what it takes. No
// goroutine exists for it while the lock is held. A nil parent counts as
// context.Background().
//
// The context carries the ownership: a [Reentrant] of this client and key that is
// given it, or a context made from it, enters the lock again, and so does a [Batch].
func (h *Held) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancelCause(parent)
	if !h.stands() {
		cancel(ErrNotHeld)
		return ctx, func() {}
	}
	ctx = h.hold.carry(ctx, h)
	if err := h.Err(); err != nil {
		cancel(err)
		return ctx, func() {}
	}
	stop := h.hold.afterFunc(func() { cancel(h.Err()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// String names the lock, for messages; the owner is not in it.
func (h *Held) String() string {
	if !h.stands() {
		return "lock not held"
	}
	return h.hold.String()
}
