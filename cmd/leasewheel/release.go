// The commands release and force-release.

package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"

	"github.com/leasewheel/leasewheel/lock"
)

const maxHandleBytes = 2 << 20

var releaseCommand = command{
	name:    "release",
	summary: "release a lock by its handle",
	about: `
Releases the lock whose handle, from leasewheel acquire or Held.Export, is on stdin. The exit status
is 76 if the lock is not held any more.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		o.define(f)
		return func(_ []string, std streams) int {
			text, err := io.ReadAll(io.LimitReader(std.in, maxHandleBytes))
			if err != nil {
				return fail(std, err)
			}
			return o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				held, err := c.Resume(ctx, strings.TrimSpace(string(text)))
				switch {
				case errors.Is(err, lock.ErrBadExport):
					return usageError{"release: the text on stdin is no handle of leasewheel acquire, or is damaged"}
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

var forceReleaseCommand = command{
	name: "force-release", args: "KEY", minArgs: 1, maxArgs: 1,
	summary: "take a lock away from its holders",
	about: `
Takes the lock away from all its holders and grants it to the next waiters. The holders are told by their
next renewal, by default within a third of their TTL; until then they and the next holder may both be
active. leasewheel run then stops its command. leasewheel inspect shows the holders before.
The exit status is 76 if nobody holds the lock.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		var yes bool
		o.define(f)
		f.BoolVar(&yes, "yes", false, "needed, because the holder loses its lock")
		return func(args []string, std streams) int {
			if !yes {
				return fail(std, usageError{"force-release: -yes is needed"})
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
