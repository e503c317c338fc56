// The TTLs that a store accepts, and the longest time that a lease may last.

package driver

import (
	"fmt"
	"time"
)

// TTLLimits are the TTLs that a store accepts, and the time for which its leases may last. Zero
// fields mean that the store accepts all TTLs, and that a lease ends exactly one TTL after its
// last renewal.
//
// A holder relies on its TTL only: it counts from [Lease.Sent] of an Acquire or Wait, and from
// the call of a Renew. The limits state how much longer others may have to wait after a crash of
// the holder.
type TTLLimits struct {
	// Min and Max are the shortest and the longest TTL of a Request. 0 means MinTTL and MaxTTL.
	// Acquire and Wait refuse any other TTL, before any IO, with an error that matches ErrBadTTL
	// and names the bounds. The client refuses such Terms before it calls the store.
	Min, Max time.Duration

	// Step is the unit of the server. It counts a TTL that is no multiple of Step as the next
	// one. 0 means that the server needs no rounding.
	Step time.Duration

	// Shared is set if the server renews all leases of a session together. When a client
	// crashes, its session may have been renewed up to one TTL after a lease that the client
	// did not renew any more. A lease that is no longer renewed must end all the same while
	// its session goes on: the store removes it.
	Shared bool

	// Slack is how much longer a lease may last for any other reason, such as a server that
	// looks for expired leases only from time to time, or a session that is longer than the TTL
	// of its leases.
	Slack time.Duration
}

// Longest returns the time after which a lease with this TTL has certainly ended, counted from
// its last renewal, on the clock of the server. It is the TTL itself if the limits are zero.
func (l TTLLimits) Longest(ttl time.Duration) time.Duration {
	longest := ttl + l.Slack
	if l.Step > 0 {
		longest += (l.Step - ttl%l.Step) % l.Step
	}
	if l.Shared {
		longest += ttl
	}
	return longest
}

// Check returns an error that matches ErrBadTTL and names the bounds if the store does not
// accept the TTL.
func (l TTLLimits) Check(ttl time.Duration) error {
	switch {
	case l.Min > 0 && ttl < l.Min:
		return fmt.Errorf("%w: the TTLs of the store are at least %v, got %v", ErrBadTTL, l.Min, ttl)
	case l.Max > 0 && ttl > l.Max:
		return fmt.Errorf("%w: the TTLs of the store are at most %v, got %v", ErrBadTTL, l.Max, ttl)
	}
	return nil
}
