// Handles: Held, the lease behind it, Unlock, and the ownership that a context carries.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// Held is the handle of one acquisition of a lock. Unless its [Terms] are Fixed, the lease is
// renewed until Unlock, until it is lost, or until the client is closed. All methods are safe for
// concurrent use. The zero Held is a lock that is not held.
type Held struct {
	handle handle      // nil: nothing is held
	used   atomic.Bool // by Unlock
}

// ok reports whether the handle is that of an acquisition, neither nil nor the zero Held.
func (h *Held) ok() bool { return h != nil && h.handle != nil }

// lease returns what the handle refers to.
func (h *Held) lease() handle {
	if !h.ok() {
		return noHandle
	}
	return h.handle
}

// noHandle is what a handle refers to that is not that of an acquisition.
var noHandle = func() handle {
	g := new(multiHandle)
	g.ctx, g.end = context.WithCancelCause(context.Background())
	g.end(ErrNotHeld)
	return g
}()

// errNoHandle is the error of a call of a Locker, made by another package, that returned
// neither a handle nor an error.
var errNoHandle = fmt.Errorf("%w: Lock returned neither a handle nor an error", ErrNotHeld)

// handle is what a Held refers to: the first handle of a lease (heldLease), another handle
// of it (reentrantHandle), or the handles of several leases (multiHandle). All methods are
// safe for concurrent use.
type handle interface {
	unlock(ctx context.Context, keep bool) error // is called once; the MinHold applies only with keep
	valid() bool
	err() error
	done() <-chan struct{}
	deadline() time.Time
	token() uint64
	replicas() (n int, known bool)
	key() string
	names() []string // of the members of a batch
	logger() *slog.Logger
	String() string // without the owner

	save(ctx context.Context, data []byte) error // see Held.Save; the error does not name the key
	saved() *driver.Saved                        // see Held.State; nil if there is none

	// afterFunc calls f with the reason when the handle ends, as renewal.Entry.AfterFunc
	// does. The watchdog then refers to f, so f must not refer to the handle.
	afterFunc(f func(err error)) (stop func() bool)

	// wanted returns a context that ends when others wait; see Held.Wanted. It is nil if nothing reports that. It also
	// returns the YieldAfter of the terms.
	wanted() (context.Context, time.Duration)

	// renewNow renews the lease; see Held.Renew.
	renewNow(ctx context.Context, ttl time.Duration) error

	// refresh gives a lease its full TTL again, unless it is fresh.
	refresh(ctx context.Context) error

	// withOwner returns a ctx in which Reentrant and Batch find h.
	withOwner(ctx context.Context, h *Held) context.Context
}

// Unlock releases the lock and returns nil once the store has confirmed that. It waits for at most
// 3 s, or one TTL if that is less, whether or not ctx has ended. Without an answer the error is
// ErrUnavailable, and the release goes on in the background until it is confirmed or the TTL has
// passed. In any case this handle has ended, and the lock is no longer renewed, unless other
// handles of the lease are left: then Unlock does no IO.
//
// If the lock was lost before, the error matches ErrLost. A second Unlock returns ErrNotHeld, an
// Unlock after Detach ErrDetached, and one after the client's Close ErrClosed. None touches the
// lock of a later holder. A nil ctx counts as context.Background().
func (h *Held) Unlock(ctx context.Context) error {
	if !h.ok() {
		return ErrNotHeld
	}
	if !h.used.CompareAndSwap(false, true) {
		return failed("unlock", h.Key(), h.whyUsed())
	}
	if ctx == nil {
		ctx = context.Background()
	}
	err := h.handle.unlock(ctx, true)
	if s, first := h.handle.(*heldLease); first && err == nil {
		s.left.Store(true)
	}
	return err
}

// whyUsed returns the error of a second call that ends the handle.
func (h *Held) whyUsed() error {
	if endOf(h.Err()) == endDetached {
		return ErrDetached
	}
	return ErrNotHeld
}

// Valid reports whether the lock is held at this very moment, even after a pause of the process. It
// reads the clocks and does no IO.
func (h *Held) Valid() bool { return h.lease().valid() }

// Err returns nil while the lock is held, and afterwards the reason, which never changes: an error
// that matches ErrLost, names the key and wraps a *renewal.LostError; ErrNotHeld after Unlock;
// ErrDetached after Detach; ErrClosed after the client's Close. A Multi returns the error of the
// first member that ended.
func (h *Held) Err() error { return h.lease().err() }

// Done returns a channel that is closed when the lock is no longer held, perhaps a moment late.
func (h *Held) Done() <-chan struct{} { return h.lease().done() }

// Deadline returns the instant at which the lock is lost unless it is renewed before, and the zero
// Time once the lock is not held.
func (h *Held) Deadline() time.Time { return h.lease().deadline() }

// Token returns the fencing token, which is higher than that of every earlier holder of this key.
// It is 0 if the store has none, and for a Multi or a Batch that was entered through several
// batches: each of their Handles has its own.
func (h *Held) Token() uint64 { return h.lease().token() }

// Replicas returns how many replicas of the server had confirmed the lock when it was acquired or
// resumed, for a [Multi] the least of its locks. It reports false if the store did not ask or got
// no answer, and for a quorum.
func (h *Held) Replicas() (n int, known bool) { return h.lease().replicas() }

// Handles returns the handles of the locks of a [Multi], in the order of its arguments, or of the
// outer batches of a re-entered [Batch]. Unlocking one ends the whole. For any other lock it
// returns h itself.
func (h *Held) Handles() []*Held {
	if !h.ok() {
		return nil
	}
	if g, ok := h.handle.(*multiHandle); ok {
		return slices.Clone(g.members)
	}
	return []*Held{h}
}

// Members returns the sorted names of the members that a [Batch] holds, and nil for any other lock.
// The slice must not be changed.
func (h *Held) Members() []string { return h.lease().names() }

// Key returns the key of the lock, and for a Multi all keys, separated by commas.
func (h *Held) Key() string { return h.lease().key() }

// Context returns a copy of parent that also ends when the lock is no longer held, with the error
// of Err as its cause. The CancelFunc ends the context, not the lock, and must be called to free
// its resources. A nil parent counts as context.Background().
//
// The context carries the ownership: a [Reentrant] or [Batch] of this client and key enters the
// lock again, and other locks may return ErrHeldByContext; see [Mutex].
func (h *Held) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancelCause(parent)
	ctx = h.lease().withOwner(ctx, h)
	if err := h.Err(); err != nil {
		cancel(err)
		return ctx, func() {}
	}
	stop := h.handle.afterFunc(cancel)
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// String describes the lock for messages, without its owner.
func (h *Held) String() string {
	if !h.ok() {
		return "lock not held"
	}
	return h.handle.String()
}

// heldLease is one lease of the store, which the watchdog renews, and the number of its
// handles. The store does not know that number, because an older message could overtake a
// change of it.
type heldLease struct {
	client     *Client
	entry      *renewal.Entry[driver.Lease]
	leaseKey   string // of the lease, because it never changes and Lease takes the mutex of all leases
	leaseToken uint64 // the same

	handles atomic.Int32    // handles that are not unlocked; at 0 the lease is released
	left    atomic.Bool     // the first handle was unlocked; there may be others
	saves   atomic.Uint64   // calls of save, which number what they save
	dropped runtime.Cleanup // reports that the handle is garbage before Unlock

	observed *observation    // nil without hooks
	want     context.Context // ends when others wait; nil without Terms.Yields
}

// unlockTimeout bounds one Unlock.
const unlockTimeout = 3 * time.Second

// newHeld returns the first handle of a lease.
func newHeld(c *Client, entry *renewal.Entry[driver.Lease], lease driver.Lease) *Held {
	s := &heldLease{client: c, entry: entry, leaseKey: lease.Key, leaseToken: lease.Token}
	s.handles.Store(1)
	if lease.Yields() {
		s.want = c.watch(entry, lease)
	}
	s.dropped = runtime.AddCleanup(s, reportDroppedHandle, droppedHandle{weak.Make(entry), weak.Make(c.logger)})
	return &Held{handle: s}
}

// unlock counts a handle out. The last one ends the lease, calls the store, and reports the end of the lock. A first try
// without an answer is repeated. If the answer is then ErrNotHeld, the first try was executed.
func (s *heldLease) unlock(ctx context.Context, keep bool) (err error) {
	c, last := s.client, s.handles.CompareAndSwap(1, 0)
	if !last {
		err = s.state() // before others can leave, too
		last = s.handles.Add(-1) == 0
	}
	release := func() error {
		s.dropped.Stop()
		if !c.gate.Enter() { // Close releases it, if it was not lost before
			return cmp.Or(s.state(), ErrClosed)
		}
		defer c.gate.Leave()
		lease, held := s.entry.Stop(nil)
		if !keep {
			lease = notKept(lease)
		}
		if !held {
			return s.releaseEnded(lease)
		}
		limit := min(unlockTimeout, lease.TTL)
		call, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, driver.NoAnswerError(limit))
		defer cancel()
		began := time.Now()
		err := c.store.Release(call, lease)
		v := driver.VerdictOf(err)
		c.health.record(err, v, began, false)
		switch {
		case v == driver.Done:
			return nil
		case v == driver.NotHeld:
			return &renewal.LostError{Reason: renewal.ReasonNotOwned, Err: err}
		case call.Err() == nil && v != driver.NotExecuted:
			if again := driver.VerdictOf(c.store.Release(call, lease)); again == driver.Done || again == driver.NotHeld {
				return nil
			}
		}
		c.releaser.Add(lease)
		return fmt.Errorf("not confirmed yet: %w", basic.Unprefixed(unavailable(err)))
	}
	reports := false
	if last && s.observed != nil {
		_ = s.state() // a loss that was not noticed yet is reported as such
		if reports = s.observed.detach(); reports {
			ctx = s.observed.releasing(ctx, func() { _ = release() })
		}
	}
	if last {
		err = release()
	}
	if err != nil {
		err = failed("unlock", s.leaseKey, err)
	}
	if reports {
		s.observed.ended(ctx, s.state(), err)
	}
	return err
}

// releaseEnded releases a lease that has ended, in the background. The store may still have
// it, and others would wait until its TTL ends. That is possible even if the store has
// answered that it is lost: a quorum answers that when a majority has lost it, and the other
// members may still have it.
func (s *heldLease) releaseEnded(lease driver.Lease) error {
	err := s.state()
	if endOf(err) == endDetached { // another process may have the lease
		return err
	}
	lost := lossIn(err)
	if lost != nil && lost.Reason != renewal.ReasonLimitReached {
		lease = notKept(lease) // the work was not protected to its end, so another may do it now
	}
	gone := lost != nil && lost.Reason == renewal.ReasonNotOwned
	if gone && !lease.Unanswered {
		_ = s.client.releaser.TryAdd(lease) // most often nothing is left, so a full releaser is no error
	} else {
		s.client.releaser.Add(lease)
	}
	return err
}

// state returns nil while the lease is held by any handle, and afterwards the reason.
func (s *heldLease) state() error { return entryState(s.entry, s.client.terms) }

func entryState(entry *renewal.Entry[driver.Lease], terms Terms) error {
	err := entry.Err()
	end, lost := endOf(err), lossIn(err)
	switch {
	case end == endUnlocked:
		return ErrNotHeld
	case end == endClosed && errors.Is(err, schedule.ErrClosed):
		return errEngineClosed
	case end == endClosed:
		return ErrClosed
	case lost == nil || lost.Reason != renewal.ReasonLimitReached:
		return err
	case terms.Fixed:
		return textError{fmt.Sprintf("lock: lease lost: its fixed TTL of %v ended", entry.Lease().TTL), err}
	default:
		return textError{fmt.Sprintf("lock: lease lost: its MaxHold of %v ended", terms.MaxHold), err}
	}
}

// errEngineClosed is the reason of leases that ended because the user closed the engine.
var errEngineClosed = fmt.Errorf("%w: %w", ErrClosed, schedule.ErrClosed)

func (s *heldLease) err() error {
	if s.left.Load() {
		return ErrNotHeld
	}
	return s.ended()
}

// ended is state with the key in the text of a loss. The error is no pointer, so that two
// calls return equal errors.
func (s *heldLease) ended() error { return entryError(s.entry, s.client.terms) }

func entryError(entry *renewal.Entry[driver.Lease], terms Terms) error {
	err := entryState(entry, terms)
	if endOf(err) == endLost {
		return keyError{key: entry.Lease().Key, err: err}
	}
	return err
}

func (s *heldLease) valid() bool { return !s.left.Load() && s.entry.Valid() }

// done and afterFunc report the end of the lease. If the first handle is unlocked before
// others, its lease ends later than the handle.
func (s *heldLease) done() <-chan struct{} { return s.entry.Done() }

func (s *heldLease) afterFunc(f func(err error)) (stop func() bool) {
	entry, terms := s.entry, s.client.terms // the function must not refer to s or the client
	return entry.AfterFunc(func() { f(entryError(entry, terms)) })
}

func (s *heldLease) deadline() time.Time {
	if s.left.Load() {
		return time.Time{}
	}
	return s.entry.Deadline()
}

func (s *heldLease) token() uint64 { return s.leaseToken }
func (s *heldLease) replicas() (int, bool) {
	l := s.entry.Lease()
	return int(l.Replicas), l.ReplicasKnown
}
func (s *heldLease) key() string          { return s.leaseKey }
func (s *heldLease) names() []string      { return s.entry.Lease().Members() }
func (s *heldLease) logger() *slog.Logger { return s.client.logger }
func (s *heldLease) String() string       { return s.entry.Lease().String() }

// ctxOwner is the ownership that the context of a handle carries. Exclusive locks and
// batches use it to be entered again. A context carries a list of them for each client.
type ctxOwner struct {
	held    *Held // handle that created the context
	of      *heldLease
	key     string
	mode    driver.Mode
	members []string  // the members of a batch that held is for, sorted
	outer   *ctxOwner // next outer ownership of the same client
}

// ctxOwnerKey is the key of the innermost ctxOwner in a context. It is a single pointer, so
// a lookup allocates nothing.
type ctxOwnerKey struct{ core *core }

// owners returns the innermost ownership of this client that ctx carries, or nil. It
// returns nil for a client whose acquire refuses all requests.
func (c *Client) owners(ctx context.Context) *ctxOwner {
	if ctx == nil || !c.ok() || c.wrong != nil {
		return nil
	}
	o, _ := ctx.Value(ctxOwnerKey{c.core}).(*ctxOwner)
	return o
}

// find returns the first ownership for a key and mode, from o outwards.
func (o *ctxOwner) find(key string, mode driver.Mode) *ctxOwner {
	for o != nil && (o.mode != mode || o.key != key) {
		o = o.outer
	}
	return o
}

// enter returns another handle, for the given members if the lock is a batch.
func (o *ctxOwner) enter(ctx context.Context, members []string) (*Held, error) {
	if err := o.held.Err(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, o.of.client.verdict(ctx, nil, true)
	}
	return o.of.enter(members)
}

func (s *heldLease) withOwner(ctx context.Context, h *Held) context.Context {
	return s.withMembersOwner(ctx, h, s.names())
}

// withMembersOwner returns a ctx that carries the ownership of h.
func (s *heldLease) withMembersOwner(ctx context.Context, h *Held, members []string) context.Context {
	r := s.entry.Lease().Request
	return context.WithValue(ctx, ctxOwnerKey{s.client.core}, &ctxOwner{
		held: h, of: s, key: r.Key, mode: r.Mode, members: members, outer: s.client.owners(ctx),
	})
}
