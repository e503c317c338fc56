// The errors that users match on, and the outcome of a call as an error.

package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Errors that users match on.
var (
	// ErrNotAcquired matches every failure to get a lock because it is taken, or because ctx
	// ended before the store was asked.
	ErrNotAcquired = driver.ErrNotAcquired

	// ErrUnavailable means that the store was asked and gave no usable answer: it was not reached,
	// it returned an error, or ctx ended before it answered. No error matches both ErrUnavailable
	// and ErrNotAcquired. If ctx ends while a Lock waits, the error is ErrNotAcquired if the latest
	// answer was that the lock is taken, and ErrUnavailable if there was none, if the latest
	// request failed, or if its answer is overdue (after 100 ms, or twice the time of the answer
	// before). Either error also matches the cause of a ctx that has ended.
	ErrUnavailable = driver.ErrUnavailable

	// ErrNotHeld is returned for a lock that was unlocked, never locked, or is held by another. A
	// lost lock is ErrLost.
	ErrNotHeld = driver.ErrNotHeld

	// ErrLost matches every loss of a lease: see [renewal.LostError].
	ErrLost = driver.ErrLost

	// ErrClosed is returned by a closed client, and by the handles of its locks. It also
	// matches if the store is closed and this client is not; the text distinguishes them.
	ErrClosed = driver.ErrClosed

	// ErrWrongType is returned if the key holds something that is not a lock, or a lock of another
	// kind; Mutex, Reentrant and Election are one kind. It is never deleted or overwritten.
	ErrWrongType = driver.ErrWrongType

	// ErrTooMany is returned by Lock, without IO, if Options.MaxWaiters calls wait already.
	ErrTooMany = errors.New("lock: too many waiters (Options.MaxWaiters)")

	// ErrBadKey matches the refusal of a key.
	ErrBadKey = driver.ErrBadKey

	// ErrBadTTL matches the refusal of a TTL.
	ErrBadTTL = driver.ErrBadTTL

	// ErrBadMembers matches the refusal of the members of a [Batch].
	ErrBadMembers = driver.ErrBadMembers

	// ErrHeldByContext is returned by Lock and TryLock if they would wait for a handle that ctx
	// comes from; see [Mutex].
	ErrHeldByContext = errors.New("lock: already held by this context")

	// ErrDetached is the reason of a handle that [Held.Detach] has ended. It matches ErrNotHeld.
	ErrDetached = fmt.Errorf("%w: detached", ErrNotHeld)

	// ErrBadExport matches the refusal of a string by [Client.Resume].
	ErrBadExport = errors.New("lock: not a string of Held.Export, or a damaged one")

	// ErrWanted is the cause of the ctx of a [Do] that ends because others wait; see [Terms].
	ErrWanted = errors.New("lock: others wait for the lock")

	// ErrPartlyHeld is returned by a [Batch] if the ctx owns some of its members, but not all.
	ErrPartlyHeld = errors.New("lock: this context holds some members of the batch, but not all")
)

// Types of package driver that users meet.
type (
	// HeldError reports that a lock is taken. It matches ErrNotAcquired.
	HeldError = driver.HeldError

	// Info is what [Client.Inspect] shows of a lock.
	Info = driver.Info
)

// keyError is an error of the lock of a key. Error formats it on demand.
type keyError struct {
	what string // the operation; "" for an acquisition
	key  string
	err  error
}

// failed returns the error of an operation on a key. An error of an acquisition that names the key stays as it is.
func failed(what, key string, err error) error {
	var named interface{ ofKey() string }
	if what == "" && errors.As(err, &named) && named.ofKey() == key {
		return err
	}
	return &keyError{what, key, err}
}

func (e keyError) Error() string {
	about, why := basic.Quote(e.key), strings.TrimPrefix(basic.Unprefixed(e.err).Error(), "renewal: ")
	if e.what != "" {
		about = e.what + " " + about
	}
	return "lock: " + about + ": " + why
}

func (e keyError) Unwrap() error { return e.err }
func (e keyError) ofKey() string { return e.key }

// overdue is how long a request may have no answer when the ctx ends without being held
// against the store.
const overdue = 100 * time.Millisecond

// verdict returns the error of an acquisition that failed with err. The first line that
// applies decides:
//
//	the client is closed                             ErrClosed
//	err means that the store is unavailable          ErrUnavailable
//	err is a definite answer, such as ErrWrongType   err; if ctx has ended, ErrNotAcquired and err
//	ctx has ended, and taken is true                 ErrNotAcquired
//	otherwise, for example a failed connection       ErrUnavailable
//
// If the caller's context has ended, the error also matches the cause of that, which may be
// the ErrClosed of another client. taken reports that the lock was taken by the latest
// answer, or that the store was not asked.
func (c *core) verdict(caller context.Context, err error, taken bool) error {
	if c.life.Err() != nil {
		return ErrClosed
	}
	return verdict(caller, err, taken)
}

// verdict is core.verdict for a client that is not closed.
func verdict(caller context.Context, err error, taken bool) error {
	cause := causeOf(caller)
	switch {
	case errors.Is(err, ErrUnavailable):
	case isDefinite(err) && cause == nil:
		return err
	case isDefinite(err), taken && isEndOf(caller, err):
		return &outcomeError{ErrNotAcquired, cause, err}
	}
	return &outcomeError{ErrUnavailable, cause, err}
}

// isAnswer reports whether a store has answered a request that acquires nothing with err.
func isAnswer(err error) bool { return driver.VerdictOf(err).IsAnswer() }

// isDefinite reports whether err is an answer of the store, or an error of this package,
// that states why the lock is not acquired.
func isDefinite(err error) bool {
	return driver.VerdictOf(err).IsFinal() || isAny(err, ErrTooMany, ErrLost, errNotWatched, errStillTaken)
}

// isEndOf reports whether err means nothing but that the caller's context has ended.
func isEndOf(caller context.Context, err error) bool {
	return caller.Err() != nil && (err == nil || isAny(err, causeOf(caller), context.Canceled, context.DeadlineExceeded))
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// unavailable adds ErrUnavailable to the error of a call that acquires nothing, unless it
// is nil or a definite answer. The caller's context has not ended.
func unavailable(err error) error {
	if isAnswer(err) {
		return err
	}
	return &outcomeError{kind: ErrUnavailable, err: err}
}

// textError has a text of its own and matches what err matches.
type textError struct {
	text string
	err  error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.err }

// outcomeError is the error of a call that ended with the context of its caller, or
// without a usable answer of the store. It matches its kind, and all that cause and err
// match, with these exceptions:
//
//   - Cause and err may be any errors, but of ErrNotAcquired and ErrUnavailable it matches
//     its kind alone. An unavailable store has no *HeldError.
//   - It matches errors of package context only if the caller's context has ended.
type outcomeError struct {
	kind  error // ErrNotAcquired or ErrUnavailable
	cause error // of the caller's context, nil if that has not ended
	err   error // of the store, or nil
}

// Error implements error.
func (e *outcomeError) Error() string {
	text := e.kind.Error()
	if e.cause != nil {
		text += ": " + basic.Unprefixed(e.cause).Error()
	}
	v := driver.VerdictOf(e.err) // NotSent names what the call has waited for, such as a full pool, and Taken the key
	if e.err == nil || e.cause != nil && (isEnd(e.err) || errors.Is(e.err, e.cause)) && v != driver.NotSent && v != driver.Taken {
		return text
	}
	kind, more := basic.Unprefixed(e.kind).Error(), basic.Unprefixed(e.err).Error()
	more = strings.TrimPrefix(strings.TrimPrefix(more, kind), ": ") // err may contain it too
	if more == "" {
		return text
	}
	return text + ": " + more
}

// Is implements the rules of the type.
func (e *outcomeError) Is(target error) bool {
	switch target {
	case ErrNotAcquired, ErrUnavailable:
		return target == e.kind
	}
	return errors.Is(e.cause, target) ||
		target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.err, target)
}

// As implements the rules of the type.
func (e *outcomeError) As(target any) bool {
	of := []error{e.cause, e.err}
	if _, ok := target.(**HeldError); ok {
		if of = of[1:]; errors.Is(e.kind, ErrUnavailable) {
			return false
		}
	}
	return slices.ContainsFunc(of, func(err error) bool { return err != nil && errors.As(err, target) })
}

// endedError is the cause of the context of a call of the store.
type endedError struct{ error }

func (e *endedError) Unwrap() error { return e.error }

var errClientClosing = &endedError{context.Canceled}

// isEnd reports whether a call of the store failed because its context had ended.
func isEnd(err error) bool { return errors.As(err, new(*endedError)) }

// ending is how the lease of a handle has ended.
type ending uint8

const (
	noEnd       ending = iota // it has not
	endLost                   // ErrLost
	endClosed                 // ErrClosed, or that of the watchdog
	endDetached               // ErrDetached
	endUnlocked               // ErrNotHeld, or that of an entry that was stopped
	endUnknown                // any other error, such as that of an Unlock without an answer
)

// endOf returns the ending that an error of a handle or of its entry reports.
func endOf(err error) ending {
	switch {
	case err == nil:
		return noEnd
	case errors.Is(err, ErrLost):
		return endLost
	case isAny(err, ErrClosed, renewal.ErrClosed):
		return endClosed
	case errors.Is(err, ErrDetached):
		return endDetached
	case isAny(err, ErrNotHeld, renewal.ErrStopped):
		return endUnlocked
	}
	return endUnknown
}

// lossIn returns the loss that an error reports, or nil.
func lossIn(err error) *renewal.LostError {
	lost, _ := errors.AsType[*renewal.LostError](err)
	return lost
}

// causeOf returns the cause of a context that has ended, and nil otherwise.
func causeOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	return cmp.Or(context.Cause(ctx), err) // a context of another type may have no cause
}

// ended returns why a call must be given up: ErrClosed if this client is closed, or the
// cause of the caller's context. It returns nil if neither has ended.
func (c *core) ended(caller context.Context) error {
	if c.life.Err() != nil {
		return ErrClosed
	}
	return causeOf(caller)
}

// reveal returns the error of a call that failed with err and acquires nothing. If the
// client or the caller's context has ended, the error matches the reason. If the store
// gave no answer, it matches ErrUnavailable.
func (c *core) reveal(caller context.Context, err error) error {
	cause := c.ended(caller)
	switch {
	case err == nil:
		return nil
	case cause == nil:
		return unavailable(err)
	case c.life.Err() != nil:
		return cause
	case isAnswer(err):
		return fmt.Errorf("%w: %w", cause, basic.Unprefixed(err))
	}
	return &outcomeError{ErrUnavailable, cause, err}
}
