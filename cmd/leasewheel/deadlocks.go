// The command deadlocks, which looks for clients that wait for each other.

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/leasewheel/leasewheel/cmd/leasewheel/internal/waitgraph"
	"github.com/leasewheel/leasewheel/lock"
)

var deadlocksCommand = command{
	name: "deadlocks", args: "[PREFIX]", maxArgs: 1,
	summary: "look for clients that wait for locks of each other",
	about: `
Lists cycles of clients in which each waits for a lock of the next: possible deadlocks. It looks at all locks whose
keys begin with the prefix, as leasewheel ls does, and then again at those of a cycle. It changes nothing.

A client is a process, and the server does not know its threads. A cycle is certain if, in each client, the
thread that waits is the one that would release. Run the command again: a cycle that stays with the same tokens
deserves a look. One client that waits for itself usually has two threads that take turns.

The exit status is 1 if several clients wait for each other; a client that waits for itself does not count. To end
a deadlock, restart one of the processes, or break one lock with leasewheel force-release, and look again: each
client is shown in one cycle, and may be in others.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o connection
		o.define(f)
		return func(args []string, std streams) int {
			found := false
			code := o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				var err error
				found, err = showDeadlocks(ctx, c, strings.Join(args, ""), std.out)
				return err
			})
			if code == 0 && found {
				return exitFound
			}
			return code
		}
	},
}

// showDeadlocks prints the cycles, and reports whether one of them has several clients.
func showDeadlocks(ctx context.Context, c *lock.Client, prefix string, w io.Writer) (bool, error) {
	cycles, err := waitgraph.Cycles(ctx, c, prefix)
	if err != nil {
		return false, err
	}
	found := len(cycles) > 0 && len(cycles[0]) > 1 // those of one client come last
	if len(cycles) == 0 {
		fmt.Fprintln(w, "no clients wait for each other")
	}
	for _, cycle := range cycles {
		if len(cycle) == 1 {
			fmt.Fprintln(w, "a client waits for itself:")
		} else {
			fmt.Fprintf(w, "%d clients wait for each other:\n", len(cycle))
		}
		for _, wait := range cycle {
			waited := ""
			if wait.Waiter.Waited > 0 {
				waited = ", has waited " + inWords(wait.Waiter.Waited.Milliseconds())
			}
			fmt.Fprintf(w, "  %s\n    waits for %s (%s)%s\n    held by %s (%s), token %d\n", clientText(wait.Waiter.Client, wait.Waiter.Metadata),
				quoted(wait.Key), wait.Waiter.Mode, waited, clientText(wait.Holder.Client, wait.Holder.Metadata), wait.Holder.Mode, wait.Holder.Token)
		}
	}
	return found, nil
}

// clientText names a client by the metadata of its place or lease.
func clientText(client, metadata string) string {
	if metadata == "" {
		return "client " + client
	}
	return fmt.Sprintf("client %s %q", client, metadata)
}
