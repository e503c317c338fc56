// Description, which states what a store is and can do.

package driver

// Description states what a store is and can do. Its zero value holds for a store with the methods of [Base].
// TTL and Replicas may change from call to call, the other fields must not. A method that the description
// does not claim returns errors.ErrUnsupported before any IO.
type Description struct {
	Waits        bool // Wait: the client calls it in place of Acquire. It is better than to ask again and again
	ReleasesAll  bool // ReleaseAll, which costs less than one Release for each lease
	Inspects     bool // Inspect and ForceRelease
	TimesWaiters bool // Inspect shows Place.Waited, in all modes
	Lists        bool // List
	SetsMetadata bool // SetMetadata, in mode Exclusive at least
	Saves        bool // Save, Forget, and requests that are Stateful
	Imports      bool // Import, for leases that another process takes over

	// TTL is set if the store does not accept every TTL from [MinTTL] to [MaxTTL], or if its leases may
	// last longer than their TTL. Examples are a server that counts in whole seconds, and one that
	// renews all leases of a client together. The limits may change, for example because the server
	// grants a client another session.
	TTL TTLLimits

	// Keeps has the modes in which the store can keep a lock taken after its release. The client asks
	// for that if Terms.MinHold is set, and refuses these terms for any other mode.
	//
	// If the lease has a [Request.Keep] above 0 and its owner holds the lock, Release and ReleaseAll
	// end the lease, return nil, and keep the lock taken by nobody for that time. It may be longer or
	// shorter than what was left of the lease. Until it has passed:
	//
	//   - the lock cannot be acquired and is not handed over, and HeldError.ExpiresIn counts it;
	//   - waiters keep their places, and new ones may join them;
	//   - Renew finds the lease lost, and another Release returns ErrNotHeld and changes nothing;
	//   - Inspect shows no holder but Info.FreeIn, and ForceRelease frees the lock.
	//
	// In mode Members this holds for the members of the lease. Other members of the key are not
	// affected, and FreeIn is 0 while the key has holders.
	//
	// Then the lock goes to the first waiter, with a higher token. If the owner does not hold the
	// lock, Keep has no effect. A lease that ends by its TTL leaves the lock free at once.
	Keeps Modes

	// Yields has the modes in which Watch notifies a holder that others wait; Exclusive is one of them unless
	// it is empty. The client asks for that if Terms.Yields is set, and refuses these terms for any other mode.
	Yields Modes

	// Unordered has the modes in which Wait does not know all waiters of a lock, because the server
	// has no queue for them. In these modes:
	//
	//   - a release wakes waiters, and the first request gets the lock, even if it is an Acquire;
	//   - Inspect shows no places, and Info.Waiting is 0.
	//
	// All other rules of Wait hold. In all other modes it serves waiters in order.
	Unordered Modes

	// Addresses are those of the servers as they were given, of the form host:port or the path of a
	// socket. It is nil if they are not known. The caller must not change the slice. Package
	// quorumstore refuses two stores that share a server, and the client logs the addresses of a store
	// that is unavailable.
	Addresses []string

	// Replicas has the counters of a store that asks replicas to confirm what it grants.
	Replicas ReplicaStats
}

// Modes is a set of modes. The zero value is empty.
type Modes uint16

// ModesOf returns the set of the given modes.
func ModesOf(modes ...Mode) (all Modes) {
	for _, m := range modes {
		all |= 1 << m
	}
	return all
}

// Has reports whether m is in the set.
func (all Modes) Has(m Mode) bool { return all&(1<<m) != 0 }

// ReplicaStats counts the answers of replicas to acquisitions, and to batches of renewals if the
// store asks for those, too.
type ReplicaStats struct {
	Enough     uint64 // as many as the store wants had confirmed in time
	TooFew     uint64 // fewer had
	Unanswered uint64 // it is not known how many had
}
