package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Mode is the kind of lock that a Request asks for.
type Mode uint8

const (
	// Exclusive: one holder at a time.
	Exclusive Mode = iota
)

// String returns the mode in a word.
func (m Mode) String() string {
	if m == Exclusive {
		return "exclusive"
	}
	return "unknown mode"
}

// Request is what is asked of a store. The client has checked it: the key is
// valid, the TTL within its bounds.
type Request struct {
	Key   string        // what is locked
	Owner string        // random, of this one acquisition: a secret
	Mode  Mode          // the kind of lock
	TTL   time.Duration // a whole number of milliseconds
}

// Lease is a grant by a store.
type Lease struct {
	Request

	// Token is the fencing token. The tokens of a key rise strictly in the order
	// of its grants. 0: the store has none.
	Token uint64

	// Sent is the instant from which the TTL counts. Zero means the one at which
	// the call of Acquire began.
	Sent time.Time

	// Unanswered says that some Acquire of this owner got no answer, so that it
	// may yet be executed. The client sets it for Release.
	Unanswered bool

	// State is the store's own.
	State any
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
// for concurrent use and must return soon after their ctx has ended, with its
// cause. Package locktest holds the contract as tests. If it is an io.Closer the
// client closes it.
//
// Every operation is idempotent for its owner, because any request may be
// executed late, or twice, or without its answer arriving: a repeated Acquire of
// an owner that holds the lock returns the same token, a Release of an owner that
// holds nothing changes nothing, and a Renew never creates a lease.
type Store interface {
	// Acquire tries once to take the lock. It returns a *HeldError if the lock is
	// taken, ErrWrongType if something that is no lock lies at the key, or the
	// error that kept it from finding out: then the lock may have been taken, and
	// the client will call Release for the owner until it is answered.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Renew gives leases their full TTL again; see [renewal.Renewer]. Lost is for
	// leases that the owner and token do not hold any more.
	renewal.Renewer[Lease]

	// Release gives the lock back if the lease's owner holds it; if not, it
	// changes nothing and returns ErrNotHeld. The client never acquires for that
	// owner again. For a lease that is Unanswered the store also sees to it, for
	// at least a minute, that an Acquire of that owner takes nothing when it is
	// executed later: it is answered with ErrNotAcquired.
	Release(ctx context.Context, l Lease) error
}
