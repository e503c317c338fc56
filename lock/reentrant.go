package lock

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// Reentrant is a lock that its holder can lock again. The holder is known by its
// context, not by its goroutine: [Held.Context], and [Do], make one that carries
// the ownership, and a Lock or TryLock that is given it, or a context made from
// it, enters the lock again at once, without IO. Any other context competes for
// the lock, as with a Mutex.
//
//	lock.Do(ctx, client.Reentrant("k"), func(ctx context.Context) error {
//		return lock.Do(ctx, client.Reentrant("k"), work) // the same lock, entered again
//	})
//
// The context is the ownership: all goroutines that are given it are inside
// together. It counts for one key and one Client, those that With made of it included;
// it makes no difference whether a Reentrant, a Mutex or a Multi locked it. A Mutex
// never enters again: given such a context it waits for itself.
//
// Each Lock returns a handle of its own, and each handle is to be unlocked once, in
// any order. The store sees one acquire, and one release when the last handle is
// unlocked. Err and Valid are those of a handle; its Done and its contexts end with
// it, but those of the first handle end with the lock itself, should others be
// unlocked later. All handles have the same token and the same lease, of the terms
// with which the lock was first got: entering again neither shortens nor extends it.
//
// A loss is told to every handle. Entering a lock again that was lost is ErrLost,
// and ErrNotHeld once the handle that made the context was unlocked: the lock is
// never acquired anew behind the holder's back.
//
// Like a Mutex it holds no state, excludes the Mutexes of the same key, and is safe
// for concurrent use.
type Reentrant struct {
	client *Client
	key    string
}

var _ Locker = (*Reentrant)(nil)

// Reentrant returns the reentrant lock with the given key; see [Client.Mutex] for
// what a key may be.
func (c *Client) Reentrant(key string) *Reentrant {
	return &Reentrant{client: c, key: key}
}

// Lock enters the lock again if ctx carries its ownership, or else waits until it
// has the lock, ctx ends or the client is closed.
//
// Errors are those of [Mutex.Lock]; and, of entering again, ErrLost, ErrNotHeld or
// ErrClosed as the Err of the handle that made ctx.
func (r *Reentrant) Lock(ctx context.Context) (*Held, error) {
	return r.acquire(ctx, true)
}

// TryLock enters the lock again if ctx carries its ownership, or else gets it if
// nobody holds it or waits for it. If not the error is a *HeldError, which matches
// ErrNotAcquired; the others are those of Lock.
func (r *Reentrant) TryLock(ctx context.Context) (*Held, error) {
	return r.acquire(ctx, false)
}

// Key returns the key.
func (r *Reentrant) Key() string { return r.key }

func (r *Reentrant) acquire(ctx context.Context, wait bool) (*Held, error) {
	if r == nil {
		return nil, errZeroLock
	}
	request := Request{Key: r.key, Mode: Exclusive}
	o := r.client.owned(ctx, request)
	if o == nil {
		return r.client.acquire(ctx, request, wait)
	}
	held, err := o.enter(ctx, nil)
	if err != nil {
		return nil, failed("", r.key, err)
	}
	return held, nil
}

// enter makes another handle, unless the last one was unlocked. The members are
// those of a batch that it stands for.
func (s *holding) enter(members []string) (*Held, error) {
	for n := s.handles.Load(); n > 0; n = s.handles.Load() {
		if s.handles.CompareAndSwap(n, n+1) {
			return newReentry(s, members), nil
		}
	}
	return nil, ErrNotHeld
}

// reentry is what a handle stands for that is not the first of its lease. It ends
// by itself, and with the lease.
type reentry struct {
	of      *holding
	members []string        // of a batch: those that it stands for
	ctx     context.Context // ends with this handle, its cause being why
	end     context.CancelCauseFunc
	off     func() bool // calls off what the end of the lease would call
}

func newReentry(s *holding, members []string) *Held {
	r := &reentry{of: s, members: members}
	r.ctx, r.end = context.WithCancelCause(context.Background())
	r.off = s.entry.AfterFunc(func() { r.end(s.ended()) })
	return &Held{hold: r}
}

func (r *reentry) unlock(ctx context.Context) error {
	_, err := r.of.leave(ctx)
	r.off()
	r.end(cmp.Or(r.of.ended(), ErrNotHeld))
	return err
}

func (r *reentry) err() error {
	if err := r.of.ended(); err != nil {
		r.end(err) // unless it has ended before
	}
	return context.Cause(r.ctx)
}

func (r *reentry) valid() bool { return r.ctx.Err() == nil && r.of.entry.Valid() }

func (r *reentry) deadline() time.Time {
	if r.ctx.Err() != nil {
		return time.Time{}
	}
	return r.of.entry.Deadline()
}

func (r *reentry) done() <-chan struct{} {
	_ = r.err() // which looks at the clocks
	return r.ctx.Done()
}

func (r *reentry) afterFunc(f func()) (stop func() bool) { return context.AfterFunc(r.ctx, f) }
func (r *reentry) token() uint64                         { return r.of.token() }
func (r *reentry) key() string                           { return r.of.key() }
func (r *reentry) logger() *slog.Logger                  { return r.of.logger() }
func (r *reentry) names() []string                       { return r.members }
func (r *reentry) String() string                        { return r.of.String() }

// refresh does nothing: the lease is that of the first handle.
func (r *reentry) refresh(context.Context) error { return nil }

func (r *reentry) carry(ctx context.Context, h *Held) context.Context {
	return r.of.carryAs(ctx, h, r.members)
}
