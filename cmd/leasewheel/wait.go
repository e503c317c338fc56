// Waiting for a lock, with the flags that limit it.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	announceAfter = time.Second               // until a command that waits names the holder
	holderTimeout = time.Second               // of the server to name the holder of a lock
	maxAge        = 10 * 365 * 24 * time.Hour // of a lock; a token that is older is no time
)

// waitOptions are the flags of a command that waits for a lock.
type waitOptions struct {
	wait   time.Duration // below 0 without a limit
	status int
	quiet  bool
}

func (o *waitOptions) defineWait(f *flag.FlagSet) {
	defineDuration(f, &o.wait, "wait", -1, "longest `duration` to wait for the lock; without it there is no limit")
	alias(f, "w", "wait")
	f.BoolFunc("nonblock", "do not wait for the lock, and at most 3 s for an answer", func(string) error {
		o.wait = 0
		return nil
	})
	alias(f, "n", "nonblock")
	o.status = exitNotAcquired
	defineNumber(f, &o.status, "conflict-exit-code", 0, 255, "exit `status` if the lock is taken (default 75)")
	alias(f, "E", "conflict-exit-code")
	f.BoolVar(&o.quiet, "quiet", false, "do not print that the lock is taken, and by whom")
	alias(f, "q", "quiet")
}

// defineNumber defines a flag whose value is a number between two others.
func defineNumber(f *flag.FlagSet, n *int, name string, least, most int, usage string) {
	f.Func(name, usage, func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err != nil || *n < least || *n > most {
			return fmt.Errorf("it must be %d to %d", least, most)
		}
		return nil
	})
}

// defineDuration defines a flag with its default, which the help shows if it is above 0.
func defineDuration(f *flag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	if value > 0 {
		usage += fmt.Sprintf(" (default %v)", value)
	}
	f.Func(name, usage, func(text string) (err error) {
		*d, err = parseDuration(text)
		return err
	})
}

// parseDuration returns the value of a flag: a number with a unit or, as in flock, of seconds.
func parseDuration(text string) (time.Duration, error) {
	value, err := time.ParseDuration(text)
	if err != nil {
		value, err = time.ParseDuration(text + "s")
	}
	switch {
	case err != nil:
		return 0, errors.New("it must be a number of seconds, or have a unit, such as 500ms, 30s or 10m")
	case value < 0:
		return 0, errors.New("it must not be negative")
	}
	return value, nil
}

// limit returns the time for the connection and the wait together, 0 if there is none.
func (o *waitOptions) limit() time.Duration {
	if o.wait == 0 {
		return tryTimeout
	}
	return max(o.wait, 0)
}

// within returns a context with that time.
func (o *waitOptions) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.limit() == 0 {
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
	case o.wait > 0:
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

// announce prints who holds the lock if it has not come within announceAfter. The caller calls end when it has ended to wait. Nothing
// waits for the message, nor for the server that is asked for it.
func (c *lockClient) announce(ctx context.Context, key string, std streams) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		if sleep(announceAfter)(ctx) != nil {
			return
		}
		if text, _ := c.holderText(ctx, key); text != "" && ctx.Err() == nil {
			fmt.Fprintf(std.err, "leasewheel: waiting for the lock %s: %s\n", quoted(key), text)
		}
	}()
	return cancel
}

// withHolder adds to the error of a taken lock who holds it, if the server names it in time.
func (c *lockClient) withHolder(key string, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), holderTimeout)
	defer cancel()
	text, kept := c.holderText(ctx, key)
	switch {
	case text == "":
		return err
	case kept: // a HeldError speaks of a lease that its holder may renew
		return fmt.Errorf("%w: %q is %s", lock.ErrNotAcquired, key, text)
	}
	return fmt.Errorf("%w; %s", err, text)
}

// holderText describes the first holder of a lock, or the time for which its MinHold keeps it after the release, "" if neither is known.
// A token is the time of the grant by the server's clock, unless that clock has stepped back.
func (c *lockClient) holderText(ctx context.Context, key string) (text string, kept bool) {
	info, err := c.Inspect(ctx, key)
	switch {
	case err != nil:
		return "", false
	case info.FreeIn > 0:
		return fmt.Sprintf("released, and kept by its -min-hold until %s (for %s)",
			time.Now().Add(info.FreeIn).Format(time.DateTime), inWords(info.FreeIn.Milliseconds())), true
	case len(info.Holders) == 0:
		return "", false
	}
	holder := info.Holders[0]
	text = "held by " + clientText(holder.Client, holder.Metadata)
	if age := time.Since(time.UnixMicro(int64(holder.Token))); age > -time.Minute && age < maxAge {
		text += fmt.Sprintf(" for %v", max(age, 0).Round(100*time.Millisecond))
	}
	if more := info.Held - 1; more > 0 {
		text += fmt.Sprintf(", and by %d more", more)
	}
	return text, false
}
