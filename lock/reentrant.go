// Reentrant.

package lock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Reentrant is a lock that its holder can lock again. The context identifies the holder, not the
// goroutine: Lock and TryLock with a context of [Held.Context] or [Do], or one derived from it,
// enter the lock again without IO. Any other context competes for the lock, also with a [Mutex] of
// the same key.
//
// The ownership is valid for one key and one Client, including those that With derives from it,
// whichever kind of lock acquired it.
//
// Each Lock returns a separate handle, which must be unlocked once, in any order. The last Unlock
// releases the lock. A handle's Done and contexts end with the handle, those of the first handle
// with the lock. Token, terms and lease are those of the first Lock.
//
// All handles report a loss.
type Reentrant struct {
	client *Client
	key    string
}

var _ Locker = (*Reentrant)(nil)

// Reentrant returns the reentrant lock with the given key; see [Client.Mutex].
func (c *Client) Reentrant(key string) *Reentrant {
	return &Reentrant{client: c, key: key}
}

// Lock enters the lock again if ctx carries its ownership; the error is then ErrLost, ErrNotHeld
// or ErrClosed if the handle that created ctx has ended. Otherwise it is [Mutex.Lock].
func (r *Reentrant) Lock(ctx context.Context) (*Held, error) {
	return r.acquire(ctx, true, nil)
}

// TryLock enters the lock again like Lock, or is [Mutex.TryLock].
func (r *Reentrant) TryLock(ctx context.Context) (*Held, error) {
	return r.acquire(ctx, false, nil)
}

func (r *Reentrant) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if r == nil {
		return nil, errZeroLock
	}
	return r.client.reenter(ctx, KindReentrant, driver.Request{Key: r.key}, wait, o)
}

// reenter enters a lock again if ctx carries the ownership, and acquires it otherwise.
func (c *Client) reenter(ctx context.Context, kind Kind, r driver.Request, wait bool, o *observation) (*Held, error) {
	members := r.Members()
	parts, rest := partsOf(c.owners(ctx).find(r.Key, r.Mode), members)
	switch {
	case len(parts) == 0:
		return c.acquire(ctx, kind, r, wait, o)
	case len(rest) > 0:
		return nil, failed("", r.Key, fmt.Errorf("%w: it lacks %d of %d, first %s",
			ErrPartlyHeld, len(rest), len(members), basic.Quote(rest[0])))
	case o == onlyChecks:
		return nil, nil
	}
	held, err := enterAll(ctx, parts)
	if err != nil {
		return nil, failed("", r.Key, err)
	}
	return held, nil
}

// enter returns another handle, unless the last one was unlocked. members are the members
// of a batch that the handle is for.
func (s *heldLease) enter(members []string) (*Held, error) {
	for n := s.handles.Load(); n > 0; n = s.handles.Load() {
		if s.handles.CompareAndSwap(n, n+1) {
			return newReentrantHandle(s, members), nil
		}
	}
	return nil, ErrNotHeld
}

// reentrantHandle is a handle that is not the first of its lease. It ends with Unlock or
// with the lease.
type reentrantHandle struct {
	*heldLease
	members []string        // the members of a batch that it is for
	ctx     context.Context // ends with this handle; its cause is the reason
	end     context.CancelCauseFunc
	off     func() bool // stops waiting for the end of the lease
}

func newReentrantHandle(s *heldLease, members []string) *Held {
	r := &reentrantHandle{heldLease: s, members: members}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	r.off = s.afterFunc(r.end)
	return &Held{handle: r}
}

func (r *reentrantHandle) unlock(ctx context.Context, keep bool) error {
	err := r.heldLease.unlock(ctx, keep)
	r.off()
	r.end(cmp.Or(r.ended(), ErrNotHeld))
	return err
}

func (r *reentrantHandle) err() error {
	if err := r.ended(); err != nil {
		r.end(err) // has no effect if it has ended before
	}
	return context.Cause(r.ctx)
}

func (r *reentrantHandle) valid() bool { return r.ctx.Err() == nil && r.entry.Valid() }

func (r *reentrantHandle) deadline() time.Time {
	if r.ctx.Err() != nil {
		return time.Time{}
	}
	return r.entry.Deadline()
}

func (r *reentrantHandle) done() <-chan struct{} {
	_ = r.err() // checks the clocks
	return r.ctx.Done()
}

func (r *reentrantHandle) afterFunc(f func(err error)) (stop func() bool) {
	return afterEnd(r.ctx, f)
}

// afterEnd calls f with the cause when ctx ends.
func afterEnd(ctx context.Context, f func(err error)) (stop func() bool) {
	return context.AfterFunc(ctx, func() { f(context.Cause(ctx)) })
}

func (r *reentrantHandle) names() []string { return r.members }

// refresh does nothing, because the lease belongs to the first handle.
func (r *reentrantHandle) refresh(context.Context) error { return nil }

func (r *reentrantHandle) withOwner(ctx context.Context, h *Held) context.Context {
	return r.withMembersOwner(ctx, h, r.members)
}
