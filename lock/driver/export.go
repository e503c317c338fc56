// The interface Importer, for leases that another process takes over.

package driver

// Importer is implemented by a Store whose leases in mode Exclusive another process can take over
// with a renewal.
type Importer interface {
	// Import returns a lease that a client of another process has acquired, with the State that
	// Renew and Release of this store need. It does no IO, and does not find out whether the lease
	// is held. The fields of the lease come from a string that anyone may have changed: Import
	// returns an error for a lease that no client of the store can have. It returns
	// errors.ErrUnsupported if no other store can take leases over.
	Import(l Lease) (Lease, error)
}
