// The commands release, force-release and watch.

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const maxHandleBytes = 2 << 20

var releaseCommand = command{
	name:    "release",
	summary: "release a lock by its handle",
	about: `
Releases the lock whose handle, from leasewheel acquire or Held.Export, is in the variable LEASEWHEEL_HANDLE
or on stdin. The exit status is 76 if the lock is not held any more.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		o.define(f)
		return func(_ []string, std streams) int {
			handle, err := readHandle(std.in)
			if err != nil {
				return fail(std, err)
			}
			return o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				held, err := c.Resume(ctx, handle)
				switch {
				case errors.Is(err, lock.ErrBadExport):
					return usageError{"release: the text in " + handleEnv + " or on stdin is no handle of leasewheel acquire, or is damaged"}
				case err == nil:
					err = held.Unlock(ctx)
				}
				if errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrLost) {
					return notHeldError("the lock of this handle is not held any more: it was released or taken away, or its time (-ttl of acquire) is over")
				}
				return err
			})
		}
	},
}

// readHandle returns the handle from the environment or from the input.
func readHandle(in *os.File) (string, error) {
	if handle := os.Getenv(handleEnv); handle != "" {
		return strings.TrimSpace(handle), nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxHandleBytes))
	if err != nil {
		return "", err
	}
	handle := strings.TrimSpace(string(text))
	if handle == "" {
		return "", usageError{"release: no handle in " + handleEnv + " or on stdin"}
	}
	return handle, nil
}

var forceReleaseCommand = command{
	name: "force-release", args: "KEY", minArgs: 1, maxArgs: 1,
	summary: "take a lock away from its holders",
	about: `
Takes the lock away from all its holders and grants it to the next waiters. The holders are told by their
next renewal, by default within a third of their TTL; until then they and the next holder may both be
active. leasewheel run then stops its command. Without -yes the command asks, and needs a terminal.
The exit status is 76 if nobody holds the lock.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		var yes bool
		o.define(f)
		f.BoolVar(&yes, "yes", false, "do not ask")
		return func(args []string, std streams) int {
			if !yes {
				if err := o.confirm(args[0], std); err != nil {
					return fail(std, err)
				}
			}
			return o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				err := c.ForceRelease(ctx, args[0])
				if errors.Is(err, lock.ErrNotHeld) {
					return notHeldError("nobody holds the lock " + quoted(args[0]) + ", or its holders have just changed")
				}
				return err
			})
		}
	},
}

// notHeldError is the text for a lock that nobody holds.
type notHeldError string

func (e notHeldError) Error() string { return string(e) }
func (e notHeldError) Unwrap() error { return lock.ErrNotHeld }

var errNotConfirmed = errors.New("not released")

// confirm shows the holders and asks. The question has no time limit.
func (o *connection) confirm(key string, std streams) error {
	if !isTerminal(std.in) {
		return usageError{"force-release: stdin is no terminal; give -yes"}
	}
	code := o.withClient(std, func(ctx context.Context, c *lock.Client) error {
		info, err := c.Inspect(ctx, key)
		if err != nil {
			return err
		}
		state := stateOf(key, info)
		printState(std.err, &state)
		return nil
	})
	if code != 0 {
		return errNotConfirmed
	}
	fmt.Fprint(std.err, "Take it away? Type yes: ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errNotConfirmed
	}
	return nil
}

var watchCommand = command{
	name: "watch", args: "[PREFIX]", maxArgs: 1,
	summary: "show the held locks again and again",
	about: `
Shows the table of leasewheel ls, again after each interval, until a signal ends it. If stdout is no terminal,
it prints a line for each change: a lock that is taken, has another holder or is free again. Each round looks at every
key of the database.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		var interval time.Duration
		o.define(f)
		defineDuration(f, &interval, "interval", time.Second, "`duration` between two rounds")
		return func(args []string, std streams) int {
			if interval < 100*time.Millisecond {
				return fail(std, usageError{fmt.Sprintf("watch: -interval must be at least 100ms, got %v", interval)})
			}
			caught := catchSignals()
			defer caught.stop()
			err := caught.during(func(ctx context.Context) error {
				return o.watch(ctx, strings.Join(args, ""), interval, std)
			})
			return endOf(std, err)
		}
	},
}

// watch shows the locks until ctx ends. An outage ends nothing.
func (o *connection) watch(ctx context.Context, prefix string, interval time.Duration, std streams) error {
	client, err := o.client(ctx, std, lock.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = client.shut() }()
	var show watchScreen
	show.w, show.raw, show.terminal = std.out, std.out.File, isTerminal(std.out.File)
	for {
		states, err := statesOf(ctx, client.Client, prefix)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, lock.ErrUnavailable) {
			return err
		}
		if err := whileNot(ctx, func() error { show.update(states, err, time.Now()); return std.out.failed() }); err != nil {
			return err
		}
		if err := sleep(interval)(ctx); err != nil {
			return err
		}
	}
}

// watchScreen shows the locks as a table, or the changes as lines.
type watchScreen struct {
	w        io.Writer
	raw      io.Writer // without escapes
	terminal bool
	last     map[string]string // what was shown of each key
	failed   bool
}

// update shows the locks, or why they are not known.
func (s *watchScreen) update(states []lockState, err error, now time.Time) {
	if s.terminal {
		fmt.Fprint(s.raw, "\x1b[H\x1b[2J")
		fmt.Fprintf(s.w, "%s  %d locks\n\n", now.Format(time.TimeOnly), len(states))
		if err != nil {
			fmt.Fprintln(s.w, errorText(err))
			return
		}
		printTable(s.w, states)
		return
	}
	at := now.Format(time.RFC3339)
	if err != nil {
		if !s.failed {
			fmt.Fprintf(s.w, "%s %s\n", at, errorText(err))
		}
		s.failed = true
		return
	}
	s.failed = false
	shownNow := make(map[string]string, len(states))
	for i := range states {
		line := changeOf(&states[i])
		shownNow[states[i].Key] = line
		if s.last[states[i].Key] != line {
			fmt.Fprintf(s.w, "%s %s %s\n", at, quoted(states[i].Key), line)
		}
	}
	for key := range s.last {
		if _, still := shownNow[key]; !still {
			fmt.Fprintf(s.w, "%s %s free\n", at, quoted(key))
		}
	}
	s.last = shownNow
}

// changeOf returns what makes a line of watch: everything but the times.
func changeOf(s *lockState) string {
	if s.FreeIn > 0 {
		return "released, kept for its minimum"
	}
	text := fmt.Sprintf("%s, %d waiting", s.status(), s.Waiting)
	for _, h := range s.Holders {
		text += fmt.Sprintf("; token %d %q", h.Token, h.Metadata)
	}
	return text
}
