// The errors of stores, and what they mean for a request.

package driver

import (
	"errors"
	"fmt"
	"os"
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
	// It matches renewal.ErrNotSent.
	ErrNotSent error = notSentError{}

	// ErrNotExecuted may be matched by an error of Acquire or Wait if the server has answered each
	// request of that call with an error and has executed none: it is loading its data, refuses
	// the user, or takes no writes. The client then neither asks again nor releases anything.
	ErrNotExecuted = fmt.Errorf("%w: nothing was executed", ErrUnavailable)

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

// Verdict is what the error of a call of a store means for its request.
type Verdict uint8

// The verdicts. All up to Closed are answers. From Refused to Closed, another try would be refused too.
const (
	Done        Verdict = iota // no error: the request was executed
	Taken                      // a *HeldError
	NotHeld                    // ErrNotHeld
	Refused                    // ErrNotAcquired: a Release has refused the owner
	Invalid                    // ErrBadKey, ErrBadTTL or ErrBadMembers
	WrongType                  // ErrWrongType
	Unsupported                // errors.ErrUnsupported
	Closed                     // ErrClosed
	NotExecuted                // ErrNotExecuted
	NotSent                    // ErrNotSent
	Unconfirmed                // a *ReplicasError: the server has executed the request
	Unanswered                 // any other error: the request may have been executed, or may be executed later
)

// VerdictOf returns the verdict of an error that a store has returned. An error that matches ErrUnavailable
// is no answer, whatever else it matches.
func VerdictOf(err error) Verdict {
	if err == nil {
		return Done
	}
	if _, ok := errors.AsType[*ReplicasError](err); ok {
		return Unconfirmed
	}
	switch {
	case errors.Is(err, ErrNotSent):
		return NotSent
	case errors.Is(err, ErrNotExecuted):
		return NotExecuted
	case errors.Is(err, ErrUnavailable):
		return Unanswered
	}
	if _, ok := errors.AsType[*HeldError](err); ok {
		return Taken
	}
	for _, answer := range answers {
		if errors.Is(err, answer.err) {
			return answer.verdict
		}
	}
	return Unanswered
}

// answers lists the errors by which a store answers, and their verdicts. The first match decides.
var answers = []struct {
	err     error
	verdict Verdict
}{
	{ErrNotAcquired, Refused},
	{ErrWrongType, WrongType},
	{ErrClosed, Closed},
	{ErrBadKey, Invalid},
	{ErrBadTTL, Invalid},
	{ErrBadMembers, Invalid},
	{errors.ErrUnsupported, Unsupported},
	{ErrNotHeld, NotHeld},
}

// IsAnswer reports whether the store has answered the request.
func (v Verdict) IsAnswer() bool { return v <= Closed }

// IsFinal reports whether the store has answered that it does not grant the request. Another try gets
// another answer only if the lock was taken.
func (v Verdict) IsFinal() bool { return v == Taken || v >= Refused && v <= Closed }

// LeavesNothing reports whether the store neither has nor will have anything of an Acquire.
func (v Verdict) LeavesNothing() bool {
	return v.IsFinal() || v == NotHeld || v == NotExecuted || v == NotSent
}

// Error returns err with this verdict, which must be NotExecuted, NotSent or Unanswered. It has the text of
// err, and matches ErrUnavailable and what err matches, but only its own verdict.
func (v Verdict) Error(err error) error { return &judgedError{v, err} }

// judgedError is an error with a verdict. It has no Unwrap, because err may have another verdict.
type judgedError struct {
	verdict Verdict
	err     error
}

func (e *judgedError) Error() string { return e.err.Error() }

// Is reports whether the error matches target.
func (e *judgedError) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return true
	case ErrNotSent, renewal.ErrNotSent:
		return e.verdict == NotSent
	case ErrNotExecuted:
		return e.verdict == NotExecuted
	}
	return errors.Is(e.err, target)
}

// As finds the first error in err that fits target.
func (e *judgedError) As(target any) bool { return errors.As(e.err, target) }

// SentBefore returns err, or the same without the verdict NotSent or NotExecuted. An error of Wait is about all its
// requests, and so it is for a call that has sent others before the one that returned err.
func SentBefore(err error) error {
	if v := VerdictOf(err); v == NotSent || v == NotExecuted {
		return Unanswered.Error(err)
	}
	return err
}

// NoAnswerError is the cause of a call that ends because it has had no answer for so long. It matches ErrUnavailable and
// os.ErrDeadlineExceeded, but no error of package context, because the caller has not ended the call.
type NoAnswerError time.Duration

// Error implements error.
func (e NoAnswerError) Error() string {
	return fmt.Sprintf("no answer within %v", basic.Round(time.Duration(e)))
}

// Is reports whether target is ErrUnavailable.
func (e NoAnswerError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns os.ErrDeadlineExceeded.
func (e NoAnswerError) Unwrap() error { return os.ErrDeadlineExceeded }

// notSentError is the type of ErrNotSent.
type notSentError struct{}

func (notSentError) Error() string { return ErrUnavailable.Error() + ": nothing was sent" }

// Is makes ErrNotSent match ErrUnavailable and the error of package renewal.
func (notSentError) Is(target error) bool {
	return target == ErrUnavailable || target == renewal.ErrNotSent
}

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
	// if only waiters are in the way, or if the store does not know it, as a quorum may not.
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
