package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

var (
	// ErrNotAcquired matches every failure to get a lock because others have it,
	// because the ctx ended before, or because the store's answer came so late that the
	// lease was over.
	ErrNotAcquired = errors.New("lock: not acquired")

	// ErrNotHeld is returned for a lock that is not held: unlocked already, never
	// locked, or held by another. A lock that was lost is ErrLost.
	ErrNotHeld = errors.New("lock: not held")

	// ErrLost matches every loss of a lease: see [renewal.LostError].
	ErrLost = renewal.ErrLost

	// ErrClosed is returned by a client that is closed, and by what it held.
	ErrClosed = errors.New("lock: client is closed")

	// ErrWrongType is returned when something that is not a lock lies at the
	// lock's key, or a lock of another kind. It is never deleted or overwritten.
	ErrWrongType = errors.New("lock: the key holds something that is not a lock of this kind")

	// ErrTooMany is returned by a Lock beyond Options.MaxWaiters. The store was not
	// asked.
	ErrTooMany = errors.New("lock: as many calls of Lock are waiting as Options.MaxWaiters allows")

	// ErrBadKey matches the refusal of a key.
	ErrBadKey = errors.New("lock: bad key")

	// ErrBadTTL matches the refusal of a TTL.
	ErrBadTTL = errors.New("lock: bad TTL")
)

// errExited is what a call of a store has come to that did not return.
var errExited = errors.New("the store has ended the goroutine that asked it")

// HeldError says that a lock is taken. It matches ErrNotAcquired.
type HeldError struct {
	Key string

	// ExpiresIn is how long it takes, unless they are renewed or released, until as many
	// leases have ended as stand in the way: until the last reader's, for a writer. It is
	// 0 if only others that wait stand there, or if the store cannot tell, as a quorum
	// may not.
	ExpiresIn time.Duration
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.ExpiresIn <= 0 {
		return fmt.Sprintf("lock: %s is held by another, or waited for", quoted(e.Key))
	}
	return fmt.Sprintf("lock: %s is held by another, whose lease ends in %v unless renewed", quoted(e.Key), e.ExpiresIn)
}

// Is makes every HeldError match ErrNotAcquired.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// keyError is what went wrong with the lock of a key. Its text is made when somebody
// reads it, and says once what it is about.
type keyError struct {
	what string // was done with it; "" for getting it, and for what became of it
	key  string
	err  error
}

// failed returns the error of what was done with a key.
func failed(what, key string, err error) error { return &keyError{what, key, err} }

func (e keyError) Error() string {
	about, why := quoted(e.key), bareError{e.err}.Error()
	if e.what != "" {
		about = e.what + " " + about
	}
	if strings.Contains(why, about) { // as the errors of stores may
		return "lock: " + why
	}
	return "lock: " + about + ": " + why
}

func (e keyError) Unwrap() error { return e.err }

// bareError is an error without the name of this package in front, for the inside of
// another one.
type bareError struct{ err error }

func (e bareError) Error() string { return strings.TrimPrefix(e.err.Error(), "lock: ") }
func (e bareError) Unwrap() error { return e.err }

// quoted makes a key fit for a message: binary bytes escaped, long keys cut.
func quoted(key string) string {
	const most = 100
	if len(key) > most {
		return strconv.Quote(key[:most]) + "..."
	}
	return strconv.Quote(key)
}
