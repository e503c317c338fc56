// The types Request, Attrs and Lease, and their bounds.

package driver

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// The bounds of a Request. The client checks them before it calls a store.
const (
	MaxKeyLen = 1024                   // bytes in a key
	MinTTL    = 100 * time.Millisecond // a shorter lease leaves no time to notify the holder of a loss
	MaxTTL    = 365 * 24 * time.Hour

	MaxMetadataLen = 1024    // bytes in the metadata of a lock
	MaxPermits     = 100_000 // the limit of a semaphore
	MaxMembers     = 10_000  // members of a batch
	MaxMemberBytes = 1 << 20 // bytes in all members of a batch together
)

// Request describes which lock is wanted, by whom, and for how long. The client has
// checked it: the key is valid, and the TTL is within MinTTL and MaxTTL.
type Request struct {
	Key string // names the lock

	// Owner is random and belongs to one acquisition. The part up to its last colon is
	// the client's name, which a store may show. The rest is a secret.
	Owner string `json:"-"`

	Mode  Mode
	TTL   time.Duration // a whole number of milliseconds
	Attrs *Attrs        // nil for most requests; a pointer because a client may keep 100,000 leases
}

// Attrs are the attributes that only some requests have. Copies of a Request share
// them, so they must not be changed.
type Attrs struct {
	Limit    int      // in mode Permit: how many permits of the key may be held at a time, at least 1
	Permits  int      // in mode Permit: how many of them the request wants, at most Limit; 0 means 1
	Members  []string // in mode Members: sorted, no two equal, none empty
	Metadata string   // shown by Inspect, at most MaxMetadataLen bytes; "" means none
	Stateful bool     // in mode Exclusive: the grant comes with the state of the key; see [Store]
	Yields   bool     // in the modes of [Description].Yields: the client calls Watch for the lease

	// KeepUntil is the instant until which a Release keeps the lock taken, on the clock of
	// this process; see [Description.Keeps]. The client sets it in leases only, never in a Request for
	// Acquire or Wait. The zero Time means that Release frees the lock.
	KeepUntil time.Time `json:"-"`
}

func (r Request) attrs() *Attrs { return cmp.Or(r.Attrs, &noAttrs) }

var noAttrs Attrs

// Limit returns the limit of r.Attrs, 0 if it has none.
func (r Request) Limit() int { return r.attrs().Limit }

// Permits returns how many permits a request in mode Permit wants.
func (r Request) Permits() int { return max(r.attrs().Permits, 1) }

// Members returns the members of r.Attrs, nil if it has none.
func (r Request) Members() []string { return r.attrs().Members }

// Metadata returns the metadata of r.Attrs, "" if it has none.
func (r Request) Metadata() string { return r.attrs().Metadata }

// Stateful reports whether the grant must come with the state of the key.
func (r Request) Stateful() bool { return r.attrs().Stateful }

// Yields reports whether the client calls Watch for the lease.
func (r Request) Yields() bool { return r.attrs().Yields }

// Keep returns for how long from now a Release must keep the lock taken, rounded up to whole
// milliseconds, or 0 if it must free the lock. A store calls it for each request that it
// sends, because the time gets shorter while an earlier request waits for an answer, and before
// anything reads the clock to which it adds the time, because the lock must not become free
// too early.
func (r Request) Keep() time.Duration {
	until := r.attrs().KeepUntil
	if until.IsZero() {
		return 0
	}
	left := max(time.Until(until), 0)
	return (left + time.Millisecond - 1).Truncate(time.Millisecond)
}

// String describes the request without its owner, which is a secret.
func (r Request) String() string {
	return r.Mode.String() + " request for " + basic.Quote(r.Key)
}

// GoString keeps the owner out of %#v.
func (r Request) GoString() string { return "driver.Request{" + r.String() + "}" }

// Lease is a grant by a store.
type Lease struct {
	Request

	// Token is the fencing token. The tokens of a key rise strictly in the order of
	// its grants. 0 means that the store has no tokens.
	Token uint64

	// Sent is the instant from which the TTL counts, on the clock of this process: the
	// store keeps the lease until Sent + TTL at least. Read the clock before sending
	// the request, never when the answer arrives. Zero means the instant at which the
	// call of Acquire began.
	//
	// Sent may lie before the call if the server renews a whole session: then it is the instant
	// of sending of the session's last renewal that was answered. If more than half of the TTL
	// has passed since, the store renews the session first.
	Sent time.Time

	// Unanswered means that some request of this owner got no answer, so it may still be
	// executed. Wait reports it to the client, and the client passes it to Release.
	Unanswered bool

	// Replicas is how many replicas of the server had confirmed the grant when the store
	// returned it, if ReplicasKnown is true. A store that does not ask leaves both zero.
	ReplicasKnown bool
	Replicas      int32

	// Saved is what the last holder has saved, for a request that is Stateful. Nil means that the
	// store has not reported it. It is not changed after that.
	Saved *Saved `json:"-"`

	// State belongs to the store. The client passes the value that Acquire or Wait
	// returned to each Renew, and to the Release of a lease that was held.
	State any `json:"-"`
}

// String describes the lease without its owner, which is a secret.
func (l Lease) String() string {
	return l.Mode.String() + " lease of " + basic.Quote(l.Key)
}

// GoString keeps the owner out of %#v.
func (l Lease) GoString() string { return "driver.Lease{" + l.String() + "}" }

// LogValue keeps the owner out of logs.
func (l Lease) LogValue() slog.Value {
	return slog.GroupValue(slog.String("key", l.Key), slog.Uint64("token", l.Token))
}
