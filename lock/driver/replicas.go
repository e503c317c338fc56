// This file is about the confirmations of replicas: their error and their counters.

package driver

import "fmt"

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

// ReplicaStats counts the answers of replicas to acquisitions, and to batches of renewals if the
// store asks for those, too.
type ReplicaStats struct {
	Enough     uint64 // as many as the store wants had confirmed in time
	TooFew     uint64 // fewer had
	Unanswered uint64 // it is not known how many had
}

// ReplicaCounter is implemented by a Store that asks replicas. ReplicaStats does no IO. It is safe
// after Close.
type ReplicaCounter interface {
	ReplicaStats() ReplicaStats
}
