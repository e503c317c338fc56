// The attributes of errors and losses.

package leaseotel

import (
	"context"
	"errors"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The reasons of losses.
const (
	reasonNotOwned = "not_owned"
	reasonFailed   = "failed"
	reasonExpired  = "expired"
	reasonLimit    = "limit_reached"
)

var reasons = []string{reasonNotOwned, reasonFailed, reasonExpired, reasonLimit}

// The types of errors. The last is that of the semantic conventions for all others.
const (
	errorTimeout     = "timeout"
	errorUnavailable = "unavailable"
	errorTooMany     = "too_many"
	errorClosed      = "closed"
	errorWrongType   = "wrong_type"
	errorOther       = "_OTHER"
)

// loss is why a lease was lost.
type loss struct {
	reason string
	cause  string
	left   float64 // seconds that the holder had left, at least 0
	known  bool    // left is known
}

// end is how the lock ended: lost, or as its terms say.
func (l loss) end() string {
	if l.reason == reasonLimit {
		return reasonLimit
	}
	return string(lock.OutcomeLost)
}

func lossOf(err error) loss {
	var lost *renewal.LostError
	if !errors.As(err, &lost) {
		return loss{reason: reasonNotOwned, cause: renewal.CauseUnknown.String()}
	}
	l := loss{reason: reasonNotOwned, cause: lost.Cause().String(), left: max(lost.Left.Seconds(), 0)}
	switch lost.Reason {
	case renewal.ReasonFailed:
		l.reason = reasonFailed
	case renewal.ReasonExpired:
		l.reason = reasonExpired
	case renewal.ReasonLimitReached:
		l.reason = reasonLimit
	}
	l.known = l.reason != reasonNotOwned
	return l
}

// acquireError returns the type of the error of a Lock or TryLock, or "". That a lock is taken
// is no error, and neither is the end of the wait.
func acquireError(i lock.HookInfo) string {
	switch i.Outcome {
	case lock.OutcomeHeldByOther, lock.OutcomeWaitLimit, lock.OutcomeCanceled:
		return ""
	}
	return errorType(i.Err)
}

// releaseError returns the type of the error of an Unlock, or "". That the client was closed is
// no error.
func releaseError(i lock.HookInfo) string {
	if i.Err == nil || i.Outcome == lock.OutcomeClosed {
		return ""
	}
	return errorType(i.Err)
}

func errorType(err error) string {
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		return storeError(err)
	case errors.Is(err, lock.ErrTooMany):
		return errorTooMany
	case errors.Is(err, lock.ErrClosed):
		return errorClosed
	case errors.Is(err, lock.ErrWrongType):
		return errorWrongType
	}
	return errorOther
}

// batchError returns the type of the error of a batch of renewals, or "".
func batchError(err error) string {
	if err == nil {
		return ""
	}
	return storeError(err)
}

// storeError tells a store that does not answer in time from one that fails.
func storeError(err error) string {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return errorTimeout
	}
	return errorUnavailable
}
