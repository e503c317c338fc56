// Waiting for a lock, with the flags that limit it.

package main

import (
	"context"
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
	f.BoolVar(&o.try, "nonblock", false, "do not wait for the lock, and at most 3 s for an answer")
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

// limit returns the time for the connection and the wait together, below 0 if there is none.
func (o *waitOptions) limit() time.Duration {
	if o.try || o.wait == 0 {
		return tryTimeout
	}
	return o.wait
}

// within returns a context with that time.
func (o *waitOptions) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.limit() < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, o.limit(), noAnswerError(o.limit()))
}

// acquire waits for the lock until caller ends, or until the time of a context that within has made from it is over.
func (o *waitOptions) acquire(caller, limited context.Context, l lock.Locker) (*lock.Held, error) {
	deadline, ok := limited.Deadline()
	if !ok {
		return l.Lock(caller)
	}
	left := time.Until(deadline).Round(time.Millisecond)
	switch {
	case left <= 0:
		return nil, noAnswerError(o.limit())
	case !o.try && o.wait > 0:
		return lock.WaitAtMost(l, left).Lock(caller)
	}
	held, err := l.TryLock(limited)
	if err != nil && !time.Now().Before(deadline) { // the lock may be free
		err = noAnswerError(o.limit())
	}
	return held, err
}

// failed prints why there is no lock and returns the exit status.
func (o *waitOptions) failed(std streams, err error) int {
	var signal signalError
	if errors.As(err, &signal) || statusOf(err) != exitNotAcquired {
		return endOf(std, err)
	}
	if !o.quiet {
		fmt.Fprintln(std.err, "leasewheel:", errorText(err))
	}
	return o.status
}
