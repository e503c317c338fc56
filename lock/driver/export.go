// The interfaces Exporter and Resumer, for leases that another process takes over.

package driver

import "context"

// MaxStateLen is the maximum number of bytes that Export of an Exporter returns.
const MaxStateLen = 64 << 10

// Exporter is implemented by a Store whose leases another process can take over. Both
// methods do no IO.
type Exporter interface {
	// Export returns what a store of another process must know about a lease, besides its
	// fields, to renew and release it; nil if that is nothing. The result is as secret as an
	// owner. The client has got the lease from Acquire, Wait or Import.
	//
	// Export returns errors.ErrUnsupported if no other store can take over the lease.
	Export(l Lease) (state []byte, err error)

	// Import returns a lease that a store of another process has exported, with the State
	// that Renew and Release of this store need. It does not find out whether the lease is
	// held. The fields of the lease, and state, come from a string that anyone may have
	// changed: Import returns an error for what no Export returns.
	Import(l Lease, state []byte) (Lease, error)
}

// Resumer is implemented by a Store for which a lease that another process takes over is more than
// one more renewal: the holder may have changed the lease since Export, or replicas confirm an
// acquisition. An Exporter with the mode Write must be a Resumer, because the client refuses to
// resume its writers otherwise.
type Resumer interface {
	// Resume renews a lease that Import has returned, as Renew does, and then does what Acquire
	// does after a grant. It returns the lease with Sent, and with Replicas if they were asked.
	//
	// In one step with the renewal, Resume compares the lease with what the server has. The error
	// is ErrNotHeld, and nothing is renewed, if the lease is not held, or has another Mode, or
	// another number of permits or members. A Read may be a Write on the server. A Write that is a
	// Read on the server was exported before a Downgrade.
	//
	// The error is a *ReplicasError if too few replicas have confirmed the lease. After any other
	// error than ErrNotHeld the lease may have been renewed. The client never releases it then,
	// because it still belongs to the process that has exported it. If Resume returns
	// errors.ErrUnsupported, the client calls Renew, except in mode Write.
	Resume(ctx context.Context, l Lease) (Lease, error)
}
