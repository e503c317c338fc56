// The modes of locks.

package driver

// Mode is the kind of lock that a Request asks for.
//
// A key is held in one family of modes at a time: Exclusive, or Read and Write, or
// Permit, or Members. While a key has a lease or a waiter, a store answers a request of
// another family with ErrWrongType. It answers a mode that it does not know with
// errors.ErrUnsupported, before any IO. Every store must know Exclusive.
//
// In all modes an Acquire does not overtake waiters. When a waiter leaves the queue,
// the store grants whatever only that waiter was blocking.
type Mode uint8

const (
	// Exclusive: one holder at a time.
	Exclusive Mode = iota

	// Read: any number of readers while there is no writer. Each reader has a lease of
	// its own. A Read by the owner that holds the Write turns it into a Read with the
	// same token and its full TTL. A Write by the owner of a Read is a message that
	// arrived late: it changes nothing and returns a *HeldError. Renew and Release
	// accept either mode for the lease, because the client may name the old one.
	Read

	// Write: one writer while there are no readers. Waiters are served in the order of
	// their arrival. Neighbouring readers are served together, and a reader does not
	// overtake a waiting writer.
	Write

	// Permit: at most Attrs.Limit permits are held at a time. A request wants
	// Attrs.Permits of them, and gets all or none. The store judges each request by
	// the limit that it brings. Waiters are served in the order of their arrival, so a
	// waiter for many permits is not overtaken by others that want fewer.
	Permit

	// Members: holders whose Attrs.Members have nothing in common. The store grants,
	// renews and releases a request as a whole or not at all. Waiters that want a common
	// member are served in the order of their arrival; a waiter is not delayed by
	// waiters for other members.
	Members
)

// String returns the name of the mode in lower case.
func (m Mode) String() string {
	names := [...]string{"exclusive", "read", "write", "permit", "members"}
	if int(m) < len(names) {
		return names[m]
	}
	return "unknown mode"
}
