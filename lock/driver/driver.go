// The interfaces Store, BulkReleaser and Waiter.

package driver

import (
	"context"

	"github.com/leasewheel/leasewheel/renewal"
)

// Store keeps leases. The package documentation has the rules that apply to all
// methods.
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
}

// BulkReleaser is implemented by a Store that releases many leases at less cost than
// with one Release for each. The client uses it in Close and for releases in the
// background, with at most 1,000 leases per call.
type BulkReleaser interface {
	// ReleaseAll does what Release does for each lease of the batch, and sets out[i]
	// to what Release would have returned for batch[i], whatever out[i] held before. A
	// lease that fails does not affect the others. An empty batch does nothing.
	//
	// An error means that nothing was done and nothing was set. After
	// errors.ErrUnsupported the client calls Release instead. A wrapper returns that
	// error for an empty batch too, so that the client can ask at no cost.
	ReleaseAll(ctx context.Context, batch []Lease, out []error) error
}

// Waiter is implemented by a Store that can wait for a lock better than by being
// asked again and again. After errors.ErrUnsupported the client calls Acquire
// instead.
type Waiter interface {
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
	// Unanswered of the returned lease counts: it tells whether a request may still be
	// executed. The client then calls Release, which also gives back a lock that was
	// handed over at that moment.
	Wait(ctx context.Context, r Request, queued func()) (Lease, error)
}
