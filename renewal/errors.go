package renewal

import (
	"errors"
	"fmt"
)

var (
	// ErrLost matches every [LostError].
	ErrLost = errors.New("renewal: lease lost")

	// ErrStopped is the end of an entry that its holder stopped.
	ErrStopped = errors.New("renewal: stopped by the holder")

	// ErrClosed is the end of an entry whose watchdog, or timer engine, was
	// closed, and the answer of a closed watchdog.
	ErrClosed = errors.New("renewal: watchdog is closed")
)

// Reason says why a lease was lost.
type Reason uint8

const (
	// NotOwned: the store says that the lease is not the holder's any more. It
	// expired there, was deleted, or was taken.
	NotOwned Reason = iota + 1

	// Failed: as many renewals in a row as Options.Failures got no answer from
	// the store. The store may still count the lease as held.
	Failed

	// Expired: the deadline came and no renewal had moved it.
	Expired

	reasons = iota + 1
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case NotOwned:
		return "the store has it no more"
	case Failed:
		return "its renewals failed"
	case Expired:
		return "its deadline passed"
	default:
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
}

// LostError tells why a lease may no longer be assumed held. It matches ErrLost
// and, through Err, what the store said.
type LostError struct {
	Reason Reason
	Err    error // the last error of the store for this lease, nil if there was none
}

// Error implements error.
func (e *LostError) Error() string {
	if e.Err == nil {
		return "renewal: lease lost: " + e.Reason.String()
	}
	return fmt.Sprintf("renewal: lease lost: %v: %v", e.Reason, e.Err)
}

// Is makes every LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }
