package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Request is what is asked of a store. The client has checked it: the key is
// valid, the TTL within its bounds.
type Request struct {
	Key   string        // what is locked
	Owner string        `json:"-"` // of this one acquisition, random: a secret; up to its last colon that of the client
	Mode  Mode          // the kind of lock
	TTL   time.Duration // a whole number of milliseconds
	Extra *Extra        // what few requests have; behind a pointer, because a client may keep 100,000 leases
}

// Lease is a grant by a store.
type Lease struct {
	Request

	// Token is the fencing token. The tokens of a key rise strictly in the order
	// of its grants. 0: the store has none.
	Token uint64

	// Sent is an instant, by the clock of this process, from which the TTL counts: the
	// store keeps the lease until Sent + TTL at least. So it is read before a request is
	// sent, never when the answer is there. Zero means the instant at which the call of
	// Acquire began.
	Sent time.Time

	// Unanswered says that some request of this owner got no answer, so that it may
	// yet take something. Wait tells the client, and the client tells Release.
	Unanswered bool

	// State is the store's own: what Acquire or Wait returned comes back with each Renew,
	// and with the Release of a lease that was held.
	State any `json:"-"`
}

// String names the lease without its owner, which is a secret.
func (l Lease) String() string {
	return l.Mode.String() + " lease of " + quoted(l.Key)
}

// GoString keeps the owner out of %#v.
func (l Lease) GoString() string { return "lock.Lease{" + l.String() + "}" }

// LogValue keeps the owner out of logs.
func (l Lease) LogValue() slog.Value {
	return slog.GroupValue(slog.String("key", l.Key), slog.Uint64("token", l.Token))
}

// String names the request without its owner, which is a secret.
func (r Request) String() string {
	return r.Mode.String() + " request for " + quoted(r.Key)
}

// GoString keeps the owner out of %#v.
func (r Request) GoString() string { return "lock.Request{" + r.String() + "}" }

// Store keeps leases: it is what a driver implements. All its methods must be safe
// for concurrent use, must do nothing if their ctx has ended before, and must return
// soon after it has ended, with its cause. If it is an io.Closer the client closes it.
// Package locktest holds the contract as tests, docs/STORES.md shows the way through
// it, from three methods to all that a store may offer.
//
// Every operation is idempotent for its owner, because any request may be
// executed late, or twice, or without its answer arriving: a repeated Acquire of
// an owner that holds the lock returns the same token, a Release of an owner that
// holds nothing changes nothing, and a Renew never creates a lease. A lease whose TTL
// has passed, by the clock of the server, is held by nobody.
type Store interface {
	// Acquire tries once to take the lock. An owner that holds it gets the same token,
	// and its full TTL again. The client sets the Request of the lease that is returned.
	//
	// It returns a *HeldError if the lock is taken, ErrWrongType if something that
	// is no lock lies at the key, ErrNotAcquired if the owner was given up (see Release),
	// or the error that kept it from finding out: then the lock may have been taken, and
	// the client will call Release for the owner until it is answered.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew gives leases their full TTL again; see [renewal.Renewer]. Lost is for
	// leases that the owner and token do not hold any more.
	renewal.Renewer[Lease]

	// Release gives the lock back if the lease's owner holds it, whatever its token:
	// of an acquisition that it gave up the client knows the Request and Unanswered
	// alone. If the owner does not hold it, Release returns ErrNotHeld and changes
	// nothing, except that an owner in the lock's queue loses its place there. The
	// client never acquires for that owner again. For a lease that is Unanswered the store also sees to it, for
	// at least a minute, that an Acquire of that owner takes nothing when it is
	// executed later: it is answered with ErrNotAcquired.
	Release(ctx context.Context, l Lease) error
}

// Waiter may be implemented by a Store that can wait better than by being asked again
// and again. A wrapper of stores answers errors.ErrUnsupported, before any IO, if
// what it wraps cannot; the client then calls Acquire instead.
type Waiter interface {
	// Wait takes the lock, or a place in its queue, and returns when the lock is the
	// owner's. It is called once for an owner; an Acquire by the owner may follow, for
	// the full TTL. In modes Exclusive and Write one client
	// calls it for one owner of a key at a time; in modes Read and Permit for several,
	// in mode Members for as many as it may have waiters.
	//
	// Places are served in the order in which they were taken. A waiter that has
	// died keeps those behind it waiting for one TTL at most, in all, however many
	// died together; nobody waits for ever because a message got lost.
	//
	// Lease.Sent must be set, to an instant that is right whatever delayed a message:
	// never to that at which one arrived.
	//
	// Wait returns soon after ctx has ended, with its cause. A first failure to reach
	// the store is tolerated. With an error, the lease that is returned says by
	// Unanswered alone whether a request may yet be executed. The client then calls
	// Release, which also gives back what was handed over at that moment.
	Wait(ctx context.Context, r Request) (Lease, error)
}
