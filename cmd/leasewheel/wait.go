package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// waitOptions are the flags of a command that waits for a lock.
type waitOptions struct {
	wait   time.Duration
	try    bool
	status int
	quiet  bool
}

func (o *waitOptions) defineWait(f *flag.FlagSet) {
	f.DurationVar(&o.wait, "wait", -1, "longest `duration` to wait for the lock, such as 30s; without it there is no limit")
	alias(f, "w", "wait")
	f.BoolVar(&o.try, "nonblock", false, "do not wait for the lock")
	alias(f, "n", "nonblock")
	f.IntVar(&o.status, "conflict-exit-code", exitNotAcquired, "exit `status` if the lock is taken")
	alias(f, "E", "conflict-exit-code")
	f.BoolVar(&o.quiet, "quiet", false, "do not print that the lock is taken")
	alias(f, "q", "quiet")
}

// check returns the error of a wrong flag.
func (o *waitOptions) check() error {
	switch {
	case o.try && o.wait >= 0:
		return usageError{"-nonblock and -wait exclude each other"}
	case o.status < 0 || o.status > 255:
		return usageError{fmt.Sprintf("-conflict-exit-code must be 0 to 255, got %d", o.status)}
	}
	return nil
}

// bound returns the lock with the wait of the flags.
func (o *waitOptions) bound(l lock.Locker) lock.Locker {
	switch {
	case o.try:
		return lock.WaitAtMost(l, 0)
	case o.wait >= 0:
		return lock.WaitAtMost(l, o.wait)
	}
	return l
}

// failed prints why there is no lock and returns the exit status.
func (o *waitOptions) failed(std streams, err error) int {
	var signal signalError
	if errors.As(err, &signal) || statusOf(err) != exitNotAcquired {
		return endOf(std, err)
	}
	if !o.quiet {
		fmt.Fprintln(std.err, "leasewheel:", err)
	}
	return o.status
}
