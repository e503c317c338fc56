// The errors.

package redsync

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasewheel/leasewheel/lock"
)

// Errors of a Mutex. Each also matches an error of package lock, so that code can check both
// kinds of locks in one way.
var (
	// ErrFailed is returned by Lock after its last try if no server gave a reason, and if its
	// ctx ended between two tries. It matches lock.ErrNotAcquired.
	ErrFailed error = matching{"redsync: failed to acquire lock", lock.ErrNotAcquired}

	// ErrExtendFailed is returned by Extend if the lock may have expired before a majority
	// answered, and if the mutex has no value to extend. It matches lock.ErrLost.
	ErrExtendFailed error = matching{"redsync: failed to extend lock", lock.ErrLost}

	// ErrLockAlreadyExpired is in the error of Unlock for each server without the key. It
	// matches lock.ErrNotHeld.
	ErrLockAlreadyExpired error = matching{"redsync: failed to unlock, lock was already expired", lock.ErrNotHeld}
)

// matching is an error that matches an error of package lock.
type matching struct {
	text string
	as   error
}

func (e matching) Error() string { return e.text }

// Is implements the interface of errors.Is.
func (e matching) Is(target error) bool { return target == e.as }

// ErrTaken means that at least a majority of the servers have another value for the key.
// Errors have the type *ErrTaken. It matches lock.ErrNotAcquired.
type ErrTaken struct { //nolint:errname // the name is part of the interface
	Nodes []int // indices of these servers, in the order of their answers
}

// Error implements error.
func (err ErrTaken) Error() string {
	return fmt.Sprintf("lock already taken, locked nodes: %v", err.Nodes)
}

// Is makes an ErrTaken match lock.ErrNotAcquired.
func (err ErrTaken) Is(target error) bool { return target == lock.ErrNotAcquired }

// ErrNodeTaken means that one server has another value for the key, and that fewer than a majority do.
// Errors have the type *ErrNodeTaken, and are joined with those of other servers.
type ErrNodeTaken struct { //nolint:errname // the name is part of the interface
	Node int // index of the server
}

// Error implements error.
func (err ErrNodeTaken) Error() string { return fmt.Sprintf("node #%d: lock already taken", err.Node) }

// RedisError means that one server gave no usable answer. Errors have the type *RedisError, and
// are joined with those of other servers. It matches lock.ErrUnavailable.
type RedisError struct {
	Node int // index of the server
	Err  error
}

// Error implements error.
func (e RedisError) Error() string { return fmt.Sprintf("node #%d: %v", e.Node, e.Err) }

// Unwrap returns Err.
func (e RedisError) Unwrap() error { return e.Err }

// Is makes a RedisError match lock.ErrUnavailable.
func (e RedisError) Is(target error) bool { return target == lock.ErrUnavailable }

var errExited = errors.New("the goroutine of the call has ended in a function of the pool")

// whyEnded returns the error of a ctx that has ended, with its cause if that is another error.
func whyEnded(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
