// Reentrant, and the ownership that a context carries.

package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Reentrant is a lock that its holder can lock again. The context identifies the holder, not the
// goroutine: Lock and TryLock with a context of [Held.Context] or [Do], or one derived from it,
// enter the lock again without IO. Any other context competes for the lock, as with a [Mutex], which
// excludes it if it has the same key.
//
// All goroutines that have the context hold the lock together. The ownership is valid for one key
// and one [Client], including those that With derives from it, whichever kind of lock acquired it.
//
// Each Lock returns a separate handle, which must be unlocked once, in any order. The last Unlock
// releases the lock. Err and Valid are those of the handle. Its Done and its contexts end with the
// handle; those of the first handle end with the lock. The token and the terms are those of the
// first Lock; entering leaves the lease as it is.
//
// Every handle is told of a loss. Entering a lost lock returns ErrLost, and entering through a
// handle that was unlocked ErrNotHeld; the lock is not acquired anew.
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
	request := driver.Request{Key: r.key, Mode: driver.Exclusive}
	owned := r.client.owned(ctx, request)
	if owned == nil {
		if o == nil {
			o = r.client.observe(KindReentrant)
		}
		return r.client.acquire(ctx, request, wait, o)
	}
	if o == onlyChecks {
		return nil, nil
	}
	held, err := owned.enter(ctx, nil)
	if err != nil {
		return nil, failed("", r.key, err)
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
	if ctx == nil || c == nil || c.core == nil || c.wrong != nil {
		return nil
	}
	o, _ := ctx.Value(ctxOwnerKey{c.core}).(*ctxOwner)
	return o
}

// owned returns the innermost ownership that ctx carries for a request, or nil.
func (c *Client) owned(ctx context.Context, r driver.Request) *ctxOwner {
	return c.owners(ctx).find(r.Key, r.Mode)
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
