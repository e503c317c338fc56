package main

import (
	"errors"
	"os"
	"syscall"

	"github.com/leasewheel/leasewheel/lock"
)

// signalError is the end of a wait by a signal.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "ended by a signal: " + e.signal.String() }

// statusOf returns the exit status for an error.
func statusOf(err error) int {
	var usage usageError
	var signal signalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &signal):
		return exitSignal + signalNumber(signal.signal)
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
