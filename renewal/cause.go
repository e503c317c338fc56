// Causes of losses, as far as there is evidence.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// Cause is why a lease was lost, as far as the evidence shows it. A Reason names what ended the
// lease; a Cause names what went wrong.
type Cause uint8

// No cause is named without evidence.
const (
	// CauseUnknown means that the evidence does not show the cause.
	CauseUnknown Cause = iota

	// CauseLimit means that nothing went wrong: the lease reached its Grant.Until.
	CauseLimit

	// CauseNoAnswer means that renewals were sent in time and got no answer. The server
	// hangs, or the network drops packets; the evidence does not show which.
	CauseNoAnswer

	// CauseServerSlow means that renewals got no answer in time, while the server answered
	// others slowly.
	CauseServerSlow

	// CauseNetwork means that there was no connection: refused, reset, or not to be opened.
	CauseNetwork

	// CauseStoreError means that the store answered the renewals with an error, which is
	// LostError.Err.
	CauseStoreError

	// CausePaused means that the process did not run when the renewals were due, or could
	// not take the answers: it was stopped, starved of CPU time, or swapped out.
	CausePaused

	// CauseEngineLate means that the timer engine did not start the renewal: a task of
	// another user blocked it.
	CauseEngineLate

	// CauseKeyMissing means that the store has no such lease: it was deleted, evicted, or
	// ended by a step of the server's clock.
	CauseKeyMissing

	// CauseTakenOver means that another owner has the lease.
	CauseTakenOver

	// CauseFailover means that the lease was gone, or could not be renewed, after another
	// server process had taken over: a fail-over or a restart that lost data. If all data were
	// there and the lock was released by force before the first renewal, the cause is the same,
	// because the store then answers the same.
	CauseFailover

	// CauseClockStep means that the wall clock was stepped forward, or the host was
	// suspended.
	CauseClockStep
)

var causeNames = [...]string{
	CauseUnknown:    "unknown",
	CauseLimit:      "limit reached",
	CauseNoAnswer:   "no answer",
	CauseServerSlow: "server slow",
	CauseNetwork:    "network",
	CauseStoreError: "store error",
	CausePaused:     "process paused",
	CauseEngineLate: "timer engine late",
	CauseKeyMissing: "key missing",
	CauseTakenOver:  "taken over",
	CauseFailover:   "fail-over",
	CauseClockStep:  "clock stepped",
}

// String returns the cause in words.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return fmt.Sprintf("Cause(%d)", uint8(c))
}

const (
	// slowDivisor makes an answer slow that takes half of the time that an attempt may take.
	slowDivisor = 2

	// lateDivisor is how little of an attempt this process may have been late if its silence is to be the server's fault. The
	// delays are samples, and an answer needs several goroutines.
	lateDivisor = 8
)

// Cause returns why the lease was lost. It always returns the same answer. docs/OPERATIONS.md
// describes what to do about each cause.
func (e *LostError) Cause() Cause {
	switch {
	case e.Reason == ReasonLimitReached:
		return CauseLimit
	case e.evidence == nil:
		return CauseUnknown
	case e.Reason == ReasonNotOwned:
		return e.evidence.causeOfDenial()
	default:
		return e.evidence.causeOfSilence(e.Err)
	}
}

// causeOfDenial is the cause if the store has denied the ownership.
func (v *evidence) causeOfDenial() Cause {
	switch {
	case v.changed:
		return CauseFailover
	case v.answer == LostTaken:
		return CauseTakenOver
	case v.answer == LostMissing:
		return CauseKeyMissing
	}
	return CauseUnknown
}

// causeOfSilence is the cause if no renewal was confirmed in time. The silence is the fault of the server or the network only if
// the renewals were sent in time and this process could have taken the answers.
func (v *evidence) causeOfSilence(err error) Cause {
	late := v.stalled + v.delayed
	network := v.answered && isNetworkError(err)
	switch {
	case v.stepped:
		return CauseClockStep
	case late*2 >= v.window && v.stalled > 0 && (!v.answered || network): // a connection may end while nobody uses it
		return CausePaused
	case v.changed && v.sent > 0:
		return CauseFailover
	case network:
		return CauseNetwork
	case v.refused:
		return CauseUnknown // the program may have used up its own connections
	case v.answered:
		return CauseStoreError
	case v.engine && v.stalled < v.attempt/lateDivisor:
		return CauseEngineLate
	case !v.complete || late >= v.attempt/lateDivisor || v.sent == 0 && (!v.inQueue || !v.silent):
		return CauseUnknown
	case v.slow > 0:
		return CauseServerSlow
	}
	return CauseNoAnswer
}

// isNetworkError reports whether an error means that there was no connection. go-redis unwraps the error of a
// handshake once, which leaves that of the system call.
func isNetworkError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout() || errors.As(err, new(*os.SyscallError)) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// isTimeout reports whether an error means no more than that there was no answer in time.
func isTimeout(err error) bool {
	var own callError
	if errors.As(err, &own) {
		err = own.err
	}
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, errNoAnswer) || errors.As(err, &timeout) && timeout.Timeout()
}
