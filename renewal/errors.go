// LostError, and the reasons of losses.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLost matches every [LostError].
	ErrLost = errors.New("renewal: lease lost")

	// ErrStopped is the error of an entry that Stop, without a cause, or Replace has ended.
	ErrStopped = errors.New("renewal: entry is stopped")

	// ErrClosed is the error of an entry whose watchdog or timer engine was closed, and
	// of Register after Close. If the engine was closed, the error of the entry
	// also matches schedule.ErrClosed.
	ErrClosed = errors.New("renewal: watchdog is closed")

	// ErrNotSent may be matched by an error of Renew if nothing was sent, for example because all connections of a pool were
	// in use. The server is then not to blame for a loss.
	ErrNotSent = errors.New("renewal: nothing was sent")
)

// Reason is why a lease was lost.
type Reason uint8

const (
	// ReasonNotOwned means that the store has denied the ownership: the lease expired, was
	// deleted, or was taken by another owner.
	ReasonNotOwned Reason = iota + 1

	// ReasonFailed means that Options.Failures renewals in a row got no answer. The store
	// may still count the lease as held.
	ReasonFailed

	// ReasonExpired means that no renewal had moved the deadline when it came.
	ReasonExpired

	// ReasonLimitReached means that the lease has reached Grant.Until, the end that its holder
	// has set. It is no failure. The holder is notified because it still has the lease at that
	// instant.
	ReasonLimitReached
)

var reasonNames = [...]string{
	ReasonNotOwned:     "no longer owned",
	ReasonFailed:       "renewals failed",
	ReasonExpired:      "deadline passed",
	ReasonLimitReached: "limit reached",
}

// String returns the reason in words.
func (r Reason) String() string {
	if r > 0 && int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// LostError reports why a lease can no longer be relied on. It matches ErrLost, and Err
// through Unwrap.
type LostError struct {
	Reason Reason
	Err    error // the last error of the store for this lease, or nil; no error of package context

	// Left is the time from the loss to the earliest end of the lease on the store: how
	// long the holder had to stop. It is 0 for ReasonNotOwned, and negative if the holder was notified
	// too late, after a pause of the process.
	Left time.Duration

	evidence *evidence // nil: there is none
}

// Error implements error.
func (e *LostError) Error() string {
	if e.Err == nil {
		return "renewal: lease lost: " + e.Reason.String()
	}
	return fmt.Sprintf("renewal: lease lost: %v: %v", e.Reason, e.Err)
}

// callError is an error of Renew without the errors of package context that it matches.
type callError struct{ err error }

func (e callError) Error() string { return e.err.Error() }

// Is reports whether target is matched and no error of package context.
func (e callError) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// As finds an error that fits target.
func (e callError) As(target any) bool { return errors.As(e.err, target) }

// errNoAnswer is the cause of the context of a call of Renew that took too long.
var errNoAnswer error = noAnswerError{}

// noAnswerError has the method by which package net recognizes timeouts, so that metrics can.
type noAnswerError struct{}

func (noAnswerError) Error() string { return "no answer in time" }
func (noAnswerError) Timeout() bool { return true }

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }
