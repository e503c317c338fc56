// This file is about the cause of a loss, as far as there is evidence.

package renewal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Cause is why a lease was lost, as far as the evidence shows it. A Reason says what ended the
// lease; a Cause says what went wrong.
type Cause uint8

// No cause is named without evidence.
const (
	// CauseUnknown means that the evidence does not tell.
	CauseUnknown Cause = iota

	// CauseLimit means that nothing went wrong: the lease reached its Grant.Until.
	CauseLimit

	// CauseNoAnswer means that renewals were sent in time and got no answer. The server
	// hangs, or the network drops packets; the evidence does not tell which.
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

// slowDivisor makes an answer slow that takes half of the time that an attempt may take.
const slowDivisor = 2

// Cause returns why the lease was lost. It always returns the same answer. docs/OPERATIONS.md
// says what to do about each cause.
func (e *LostError) Cause() Cause {
	switch {
	case e.Reason == ReasonLimitReached:
		return CauseLimit
	case e.story == nil:
		return CauseUnknown
	case e.Reason == ReasonNotOwned:
		return e.story.causeOfDenial()
	default:
		return e.story.causeOfSilence(e.Err)
	}
}

// causeOfDenial is the cause if the store has denied the ownership.
func (s *lossRecord) causeOfDenial() Cause {
	switch {
	case s.sees(EventServerChanged):
		return CauseFailover
	case s.answer == LostTaken:
		return CauseTakenOver
	case s.answer == LostMissing:
		return CauseKeyMissing
	}
	return CauseUnknown
}

// causeOfSilence is the cause if no renewal was confirmed in time.
func (s *lossRecord) causeOfSilence(err error) Cause {
	tried := len(s.tries) > 0 || s.state == renewing
	if len(s.tries) == 0 {
		err = nil // it is of a renewal before the last confirmed one
	}
	answered, stalled := err != nil && !isTimeout(err), s.stalled()
	switch {
	case !tried && (s.stepped || s.byWall):
		return CauseClockStep
	case !answered && stalled > 0 && stalled*2 >= time.Duration(s.at-s.firstDue()):
		return CausePaused
	case !tried && s.state == waiting && stalled > s.timing.margin:
		return CausePaused
	case !tried && s.late:
		return CauseEngineLate
	case !tried && s.state == waiting:
		return CauseUnknown
	case s.sees(EventServerChanged):
		return CauseFailover
	case isNetworkError(err):
		return CauseNetwork
	case answered:
		return CauseStoreError
	case s.sees(EventUnreachable) || s.sees(EventDeadConn):
		return CauseNetwork
	case s.sees(EventSlow):
		return CauseServerSlow
	}
	return CauseNoAnswer
}

// isNetworkError reports whether an error says that there was no connection. go-redis unwraps the error of a
// handshake once, which leaves that of the system call.
func isNetworkError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout() || errors.As(err, new(*os.SyscallError)) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// isTimeout reports whether an error says no more than that there was no answer in time.
func isTimeout(err error) bool {
	var own callError
	if errors.As(err, &own) {
		err = own.err
	}
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, errNoAnswer) || errors.As(err, &timeout) && timeout.Timeout()
}
