package driver

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
