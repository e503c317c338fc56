// This file is about the errors of stores.

package driver

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/renewal"
)

// The errors of stores. Package lock has the same values under the same names.
var (
	// ErrNotAcquired matches every failure to get a lock because it is taken, because
	// the owner was refused, or because the ctx ended while the lock was taken. An error
	// of package lock never matches both ErrNotAcquired and ErrUnavailable.
	ErrNotAcquired = errors.New("lock: not acquired")

	// ErrUnavailable matches every failure of a store to give a usable answer: it was not
	// reached, did not answer in time, or answered what makes no sense. A store need not
	// return it, because package lock adds it to every error that is no answer.
	ErrUnavailable = errors.New("lock: store unavailable")

	// ErrNotSent may be matched by an error of Acquire or Wait if no request of that call
	// was sent, and none will be. The client then releases nothing for the owner. A Wait
	// that has sent a request before must not return it, even if its last one was not sent.
	ErrNotSent = fmt.Errorf("%w: nothing was sent", ErrUnavailable)

	// ErrNotHeld is returned for a lock that is not held: unlocked already, never
	// locked, or held by another owner. A lost lock is ErrLost.
	ErrNotHeld = errors.New("lock: not held")

	// ErrLost matches every loss of a lease: see [renewal.LostError].
	ErrLost = renewal.ErrLost

	// ErrClosed is returned by a closed client, and by the handles of its locks. ErrStoreClosed
	// matches it.
	ErrClosed = errors.New("lock: client is closed")

	// ErrStoreClosed is returned by a closed store. A client returns it if its store was
	// closed by something else, such as another client of the same store.
	ErrStoreClosed error = storeClosedError{}

	// ErrWrongType is returned if the key holds something that is not a lock, or a lock
	// of another kind. A store never deletes or overwrites it.
	ErrWrongType = errors.New("lock: the key holds something that is not a lock of this kind")

	// ErrBadKey matches the refusal of a key.
	ErrBadKey = errors.New("lock: bad key")

	// ErrBadTTL matches the refusal of a TTL.
	ErrBadTTL = errors.New("lock: bad TTL")

	// ErrBadMembers matches the refusal of the members of a batch.
	ErrBadMembers = errors.New("lock: bad members")
)

// storeClosedError is the type of ErrStoreClosed.
type storeClosedError struct{}

func (storeClosedError) Error() string { return "lock: the store is closed" }

// Is makes ErrStoreClosed match ErrClosed.
func (storeClosedError) Is(target error) bool { return target == ErrClosed }

// HeldError reports that a lock is taken. It matches ErrNotAcquired.
type HeldError struct {
	Key string

	// Member is a member of the batch that another batch holds or waits for: the one whose
	// lease expires last, in a quorum on one of the stores. It is empty for other locks.
	Member string

	// ExpiresIn is the time until enough of the blocking leases have expired, if none is
	// renewed or released. For a writer that is the expiry of the last reader. For a lock that
	// nobody holds, because it is kept until its MinHold has passed, it is the rest. It is 0
	// if only waiters are in the way, or if the store cannot tell, as a quorum may not.
	// In a store with [TTLLimits] it is the time that the server shows, which may be up to
	// Longest of the TTL, and may grow while other leases of the session are renewed.
	//
	// A lock that was just handed over to a waiter counts as held, even if that waiter
	// has given up and its release is still on the way to the store.
	ExpiresIn time.Duration
}

// Error implements error.
func (e *HeldError) Error() string {
	what := basic.Quote(e.Key)
	if e.Member != "" {
		what = "member " + basic.Quote(e.Member) + " of " + what
	}
	if e.ExpiresIn <= 0 {
		return "lock: " + what + " is held by another, or waited for"
	}
	return fmt.Sprintf("lock: %s is taken for another %v, or longer if renewed", what, basic.Round(e.ExpiresIn))
}

// Is makes every HeldError match ErrNotAcquired.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// ReplicasError is the error of an Acquire, a Wait, a Resume or a Renew that too few replicas of
// the server have confirmed. It matches ErrUnavailable. The server has the lock, so the client
// calls Release for the owner. After a Renew the client still holds the lock, and after a Resume
// the process that has exported it does.
type ReplicasError struct {
	Want, Got int
	Err       error // why it is not known how many have; nil if Got have
}

// Error implements error.
func (e *ReplicasError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("lock: not confirmed by %d replicas: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("lock: confirmed by %d of %d replicas", e.Got, e.Want)
}

// Is reports whether target is ErrUnavailable.
func (e *ReplicasError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns Err.
func (e *ReplicasError) Unwrap() error { return e.Err }
