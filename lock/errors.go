package lock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Errors that users match on. Stores return them too, so most are values of package driver.
var (
	// ErrNotAcquired matches every failure to get a lock because it is taken, or because
	// ctx ended before the store was asked. See ErrUnavailable for the other failures.
	ErrNotAcquired = driver.ErrNotAcquired

	// ErrUnavailable means that the store was asked and gave no usable answer: it was not
	// reached, it returned an error, or ctx ended before it answered. No error of this
	// package matches both ErrUnavailable and ErrNotAcquired, so a service tells contention
	// from an outage with two calls of errors.Is. If ctx ends while a Lock waits, the latest
	// answer decides: ErrNotAcquired if the store has said that the lock is taken, and
	// ErrUnavailable if it has not answered yet, if the latest request failed, or if the
	// answer to that is overdue (after 100 ms, or twice the time of the answer before). A call
	// that waits behind others of its client goes by the answers that those have had since.
	// Either error also matches the cause of a ctx that has ended.
	ErrUnavailable = driver.ErrUnavailable

	// ErrNotHeld is returned for a lock that is not held: unlocked already, never
	// locked, or held by another. A lost lock is ErrLost.
	ErrNotHeld = driver.ErrNotHeld

	// ErrLost matches every loss of a lease: see [renewal.LostError].
	ErrLost = driver.ErrLost

	// ErrClosed is returned by a closed client, and by the handles of its locks. It also
	// matches if the store is closed and this client is not; the text tells them apart.
	ErrClosed = driver.ErrClosed

	// ErrWrongType is returned if the key holds something that is not a lock, or a
	// lock of another kind. It is never deleted or overwritten.
	ErrWrongType = driver.ErrWrongType

	// ErrTooMany is returned by Lock if Options.MaxWaiters calls wait already. The store
	// was not asked.
	ErrTooMany = errors.New("lock: too many waiters (Options.MaxWaiters)")

	// ErrBadKey matches the refusal of a key.
	ErrBadKey = driver.ErrBadKey

	// ErrBadTTL matches the refusal of a TTL.
	ErrBadTTL = driver.ErrBadTTL

	// ErrBadMembers matches the refusal of the members of a [Batch].
	ErrBadMembers = driver.ErrBadMembers

	// ErrHeldByContext is returned by Lock and TryLock of a lock that is not reentrant if the
	// ctx comes from the context of a handle that holds it. The call would wait for itself.
	ErrHeldByContext = errors.New("lock: already held by this context")

	// ErrDetached is the reason of a handle that [Held.Detach] has ended. It matches ErrNotHeld.
	ErrDetached = fmt.Errorf("%w: detached", ErrNotHeld)

	// ErrBadExport matches the refusal of a string by [Client.Resume].
	ErrBadExport = errors.New("lock: not a string of Held.Export, or a damaged one")

	// ErrPartlyHeld is returned by a [Batch] if the ctx owns some of its members, but not
	// all.
	ErrPartlyHeld = errors.New("lock: this context holds some members of the batch, but not all")
)

// Types of package driver that users meet.
type (
	// HeldError reports that a lock is taken. It matches ErrNotAcquired. See
	// [driver.HeldError] for its fields.
	HeldError = driver.HeldError

	// Lease is the lease of a renewal.LostInfo. See [driver.Lease] for its fields.
	Lease = driver.Lease

	// Info is what [Client.Inspect] shows of a lock. See [driver.Info] for its fields.
	Info = driver.Info

	// Holder is one holder of a lock in an [Info]. See [driver.Holder] for its fields.
	Holder = driver.Holder

	// Place is the place of one waiter for a lock in an [Info]. See [driver.Place] for its
	// fields.
	Place = driver.Place
)

// keyError is an error of the lock of a key. Error formats it on demand and names the key
// once.
type keyError struct {
	what string // the operation; "" for an acquisition
	key  string
	err  error
}

// failed returns the error of an operation on a key.
func failed(what, key string, err error) error { return &keyError{what, key, err} }

func (e keyError) Error() string {
	about, why := basic.Quote(e.key), strings.TrimPrefix(basic.Unprefixed(e.err).Error(), "renewal: ")
	if e.what != "" {
		about = e.what + " " + about
	}
	if strings.Contains(why, about) { // errors of stores may contain it
		return "lock: " + why
	}
	return "lock: " + about + ": " + why
}

func (e keyError) Unwrap() error { return e.err }
