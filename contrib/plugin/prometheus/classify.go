// The labels of errors and losses.

package leaseprom

import (
	"context"
	"errors"
	"time"

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

// The types of errors.
const (
	errorNone        = ""
	errorTimeout     = "timeout"
	errorUnavailable = "unavailable"
	errorTooMany     = "too_many"
	errorClosed      = "closed"
	errorWrongType   = "wrong_type"
	errorOther       = "other"
)

// batchErrors are the results of batchError.
var batchErrors = []string{errorNone, errorTimeout, errorUnavailable}

// lossOf returns the reason of a loss, and how long the holder had left if that is known.
func lossOf(err error) (reason string, left time.Duration, known bool) {
	var lost *renewal.LostError
	if !errors.As(err, &lost) {
		return reasonNotOwned, 0, false
	}
	switch lost.Reason {
	case renewal.ReasonFailed:
		return reasonFailed, lost.Left, true
	case renewal.ReasonExpired:
		return reasonExpired, lost.Left, true
	case renewal.ReasonLimitReached:
		return reasonLimit, lost.Left, true
	}
	return reasonNotOwned, 0, false
}

// acquireError returns the type of the error of a Lock or TryLock. That a lock is taken is no
// error, and neither is the end of the wait.
func acquireError(i lock.HookInfo) string {
	switch i.Outcome {
	case lock.OutcomeHeldByOther, lock.OutcomeWaitLimit, lock.OutcomeCanceled:
		return errorNone
	}
	switch {
	case errors.Is(i.Err, lock.ErrUnavailable):
		return storeError(i.Err)
	case errors.Is(i.Err, lock.ErrTooMany):
		return errorTooMany
	case errors.Is(i.Err, lock.ErrClosed):
		return errorClosed
	case errors.Is(i.Err, lock.ErrWrongType):
		return errorWrongType
	}
	return errorOther
}

// batchError returns the type of the error of a batch of renewals.
func batchError(err error) string {
	if err == nil {
		return errorNone
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
