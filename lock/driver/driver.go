// The interface Store, and Base, which a store embeds.

package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Store keeps leases. The package documentation has the rules that apply to all methods. A store embeds
// [Base], implements Acquire, Renew and Release, and replaces the other methods that it can do better. Its
// [Description] states which these are; all others return errors.ErrUnsupported before any IO.
type Store interface {
	// Acquire tries once to take the lock and does not wait for it. An owner that
	// holds the lock gets the same token, and its full TTL again, as by Renew; it counts from
	// [Lease.Sent]. The client sets the Request of the lease that Acquire returns.
	//
	// Acquire returns a *HeldError if the lock is taken, ErrWrongType if the key holds
	// something that is not a lock, and ErrNotAcquired if the owner was refused by a
	// Release. Any other error means that the store is unavailable and the outcome
	// unknown: the lock may have been taken, so the client calls Release for the owner
	// until it is answered. If the error matches ErrNotSent or ErrNotExecuted the client does not.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew gives leases their full TTL again; see [renewal.Renewer]. A lease is Lost
	// if its owner and token do not hold the lock any more. The TTL counts from the call of Renew,
	// so a store with sessions renews the session during the call.
	//
	// The TTL may be longer or shorter than that of the Acquire and of other renewals of
	// the lease. Renew sets the end of the lease to the later of two instants: the end that
	// it has already, and one TTL from now. So a renewal never shortens a lease, and a
	// request with an earlier TTL that is executed late does no harm.
	renewal.Renewer[Lease]

	// Release gives the lock back if the owner of the lease holds it. Release
	// identifies the lease by its owner only. The token may be unknown: a client that
	// abandons an acquisition has just the Request and Unanswered.
	//
	// If the owner does not hold the lock, Release returns ErrNotHeld and changes
	// nothing, except that it removes the owner from the lock's queue. The client
	// never acquires for that owner again. If the lease is Unanswered the store must
	// also refuse the owner for at least one minute: an Acquire by this owner that is
	// executed later takes nothing and returns ErrNotAcquired.
	//
	// If the lease has a [Request.Keep], the lock stays taken; see [Description.Keeps].
	Release(ctx context.Context, l Lease) error

	// Describe returns what the store is and can do now. It does no IO and is safe after Close. It
	// must be cheap and allocate nothing, because the client calls it each time that it checks Terms.
	Describe() Description

	// Shutdown closes the store, for Client.Close and with its ctx. If ctx has ended, Shutdown must not
	// wait, and must close everything all the same. Every call waits until the store is closed and
	// returns the same result. Every other method of a closed store returns ErrStoreClosed.
	Shutdown(ctx context.Context) error

	// Wait takes the lock, or a place in its queue, and returns when the owner has the
	// lock. The client calls it once for an owner; an Acquire by the owner may follow,
	// for the full TTL. In modes Exclusive and Write a client has one Wait for a key
	// at a time, in modes Read and Permit several, and in mode Members as many as it
	// may have waiters.
	//
	// Places are served in the order in which they were taken, except in the modes of
	// [Description.Unordered]. Dead waiters delay the waiters behind them by one TTL in all,
	// however many die together. A lost message keeps nobody waiting for ever.
	//
	// Wait must set Lease.Sent to an instant that is right however late a message
	// arrived: never to the time of its arrival.
	//
	// Wait calls queued once the server has answered that the owner must wait, and may call it
	// again. If ctx ends after that, the client reports contention; otherwise it reports that the
	// store is unavailable. If later requests of the Wait have no answer when ctx ends, although an
	// answer should have come by then, Wait returns an error that matches ErrUnavailable.
	//
	// queued is not nil. It calls a hook of the user, which may take time, panic, or end the
	// goroutine. So Wait calls it with no mutex held, and leaves the queue by defer if only Wait can.
	//
	// Wait tolerates a first failure to reach the store. After an error, only
	// Unanswered of the returned lease counts: it reports whether a request may still be
	// executed. The client then calls Release, which also gives back a lock that was
	// handed over at that moment.
	Wait(ctx context.Context, r Request, queued func()) (Lease, error)

	// ReleaseAll does what Release does for each lease of the batch, and sets out[i]
	// to what Release would have returned for batch[i], whatever out[i] held before. A
	// lease that fails does not affect the others. An empty batch does nothing.
	//
	// An error means that nothing was done and nothing was set. The client calls it in Close and for
	// releases in the background, with at most 1,000 leases per call.
	ReleaseAll(ctx context.Context, batch []Lease, out []error) error

	// Inspect returns what the store knows about a lock at one instant. A key that
	// nobody holds is not an error. It returns ErrWrongType, as ForceRelease does, if the key holds
	// something that is not a lock.
	Inspect(ctx context.Context, key string) (Info, error)

	// ForceRelease takes a lock away from all its holders and hands it over to the
	// waiters. A lock that is kept after its release becomes free. The holders learn of
	// it at their next renewal at the latest. Until then two owners may believe that they
	// hold the lock, and only the fencing token distinguishes them. ForceRelease returns
	// ErrNotHeld if nobody holds the lock, or if its holders have changed since
	// ForceRelease looked at them.
	ForceRelease(ctx context.Context, key string) error

	// List returns keys that begin with prefix and are held in any mode, or kept after a
	// release (see Description.Keeps), in any order, and the cursor of the next call. The cursor of the
	// first call is "", and List returns "" with the last keys. A call may return no keys and a
	// cursor. Cursors belong to the store, whose form of them nobody else knows; they have at
	// most 1,024 bytes. List returns an error for one that it cannot have returned for the prefix.
	//
	// A key that is held from the first call to the end of the last one is returned at
	// least once. Any other key may be returned or not, and so may a key that holds something
	// that is not a lock. The keys of queues and tombstones are not locks. A key may be
	// returned twice.
	//
	// One call does a bounded amount of work on the server, whatever the number of locks and
	// of other keys. List returns an error, rather than an end, if it can no longer find all
	// keys, for example because a server of a cluster has been replaced. A store documents the
	// changes of its servers that it cannot notice.
	List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error)

	// SetMetadata changes the metadata that Inspect shows for a lease, until the lease ends; package
	// lock calls it for the leaders of elections. The next holder is shown with its own. The lease
	// keeps its owner, token and expiry, and l.Attrs does not change either.
	//
	// SetMetadata returns ErrNotHeld, and changes nothing, if the owner and token of the
	// lease do not hold the lock. It returns errors.ErrUnsupported, before any IO, for a
	// mode in which the store cannot change metadata; it must be able to in mode
	// Exclusive. The metadata has at most MaxMetadataLen bytes.
	SetMetadata(ctx context.Context, l Lease, metadata string) error

	// Save replaces the state beside a lock, in mode Exclusive. The state survives the release of the lock,
	// the end of a lease and a crash of its holder. A request with [Attrs].Stateful asks for it: Acquire
	// returns it in [Lease].Saved, as it was at the instant of the grant, or as it is now if the owner held
	// the lock before. Wait may leave Saved nil; then the client calls Acquire for that owner, which costs
	// a request.
	//
	// In the same step Save looks whether the owner and token of the lease hold the lock; if not, it
	// changes nothing, however late it is executed, and returns ErrNotHeld.
	//
	// The saves of a lease have rising numbers, from 1. If the state is of this lease and has the same
	// number or a higher one, then a later save, or this one, was executed before: Save changes nothing and
	// returns nil. The state ends ttl after the last Save that changed it, or some seconds later if the
	// server counts so. data has at most MaxSavedLen bytes, and Save must not keep it.
	Save(ctx context.Context, l Lease, number uint64, data []byte, ttl time.Duration) error

	// Forget removes the state of a key, which may be held. It is no error if there is none.
	Forget(ctx context.Context, key string) error

	// Watch has wanted called once a Wait of another owner has a place in the queue of the lock, or has one
	// already: soon, and after a lost message when the lease is renewed. The waiters of a client count for
	// its own leases. Dead waiters may count. The client calls Watch once for each grant, if the request has
	// [Attrs].Yields and the mode is one of [Description].Yields.
	//
	// Watch returns at once and does no IO meanwhile. wanted returns at once, and may be called several times, from
	// anywhere and with any mutex held. stop ends that, also after the store is closed. The client calls
	// stop when the lease has ended; wanted may still be called for a moment after that.
	Watch(l Lease, wanted func()) (stop func())

	// Import returns a lease in mode Exclusive that a client of another process has acquired, with the
	// State that Renew and Release of this store need. It does no IO, and does not find out whether the lease
	// is held. The fields of the lease come from a string that anyone may have changed: Import
	// returns an error for a lease that no client of the store can have.
	Import(l Lease) (Lease, error)

	// ReportEvents sets the function that gets the events: that another server process answers, which
	// explains losses, that the server may have lost leases, so that the client verifies them, or that
	// waiters get no messages. The Lane of an event is that of the leases that it
	// concerns, or renewal.AllLanes. The function returns at once, and may be called from anywhere but Lane, and with no
	// mutex held that Lane takes. The client calls ReportEvents once, before any other method but Describe.
	ReportEvents(report func(renewal.Event))

	// Lane returns the lane of a lease; see [renewal.Laner].
	renewal.Laner[Lease]
}

// Base has the methods of a Store that can only acquire, renew and release. Its Description is zero, all its
// leases are in one lane, it has no events, and it needs no closing.
type Base struct{}

// Describe implements [Store].
func (Base) Describe() Description { return Description{} }

// Shutdown implements [Store].
func (Base) Shutdown(context.Context) error { return nil }

// Wait implements [Store].
func (Base) Wait(context.Context, Request, func()) (Lease, error) {
	return Lease{}, cannot("wait for a lock")
}

// ReleaseAll implements [Store].
func (Base) ReleaseAll(context.Context, []Lease, []error) error {
	return cannot("release several leases in one call")
}

// Inspect implements [Store].
func (Base) Inspect(context.Context, string) (Info, error) { return Info{}, cannot("inspect a lock") }

// ForceRelease implements [Store].
func (Base) ForceRelease(context.Context, string) error { return cannot("take a lock away") }

// List implements [Store].
func (Base) List(context.Context, string, string) (keys []string, next string, err error) {
	return nil, "", cannot("list its locks")
}

// SetMetadata implements [Store].
func (Base) SetMetadata(context.Context, Lease, string) error { return cannot("change metadata") }

// Save implements [Store].
func (Base) Save(context.Context, Lease, uint64, []byte, time.Duration) error {
	return cannot("keep a state beside a lock")
}

// Forget implements [Store].
func (Base) Forget(context.Context, string) error { return cannot("keep a state beside a lock") }

// Watch implements [Store]. It never calls wanted.
func (Base) Watch(Lease, func()) (stop func()) { return func() {} }

// Import implements [Store].
func (Base) Import(Lease) (Lease, error) { return Lease{}, cannot("export its leases") }

// ReportEvents implements [Store].
func (Base) ReportEvents(func(renewal.Event)) {}

// Lane implements [Store].
func (Base) Lane(Lease) int { return 0 }

func cannot(what string) error {
	return fmt.Errorf("the store cannot %s: %w", what, errors.ErrUnsupported)
}
