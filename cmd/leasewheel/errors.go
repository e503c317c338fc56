// Errors as text and as exit status.

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// signalError is the end of a wait by a signal.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "ended by a signal: " + e.signal.String() }

// noAnswerError is the cause of a context in whose time the server has not answered.
type noAnswerError time.Duration

func (e noAnswerError) Error() string {
	return fmt.Sprintf("no answer of the server within %v", time.Duration(e))
}
func (e noAnswerError) Unwrap() error { return lock.ErrUnavailable }

// errorText returns the error in one line, without the names of packages before it.
func errorText(err error) string {
	return oneLine(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "lock: "), "redisstore: "))
}

// oneLine joins the lines of a text. The errors of Close have several.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// statusOf returns the status for an error, as end takes it.
func statusOf(err error) int {
	var usage usageError
	var signal signalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &signal):
		return -signalNumber(signal.signal)
	case errors.As(err, &usage), errors.Is(err, lock.ErrBadKey), errors.Is(err, lock.ErrBadTTL), errors.Is(err, lock.ErrBadExport):
		return exitUsage
	case errors.Is(err, lock.ErrNotAcquired):
		return exitNotAcquired
	case errors.Is(err, lock.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, lock.ErrLost), errors.Is(err, lock.ErrNotHeld):
		return exitLost
	}
	return exitFailed
}

// signalNumber returns the number of a signal, 0 if it has none.
func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
