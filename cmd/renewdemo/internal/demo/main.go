// Package demo is the program renewdemo.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

// supervisedEnv is set in the environment of a process that may stop itself; see supervise.
const supervisedEnv = "RENEWDEMO_SUPERVISED"

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells report it
)

// Main runs the program with the arguments and the environment of the process and returns its exit
// status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logging.Disable() // the demo reports the errors of go-redis itself
	if url := os.Getenv(holderEnv); url != "" {
		return report(runHolder(ctx, url, os.Stdin, os.Stdout))
	}
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case c.proof:
		return report(prove(ctx, c, &screen{os.Stdout}))
	}
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the release
	supervised := os.Getenv(supervisedEnv) != ""
	switch {
	case c.http == "":
		return report(run(ctx, c, &screen{os.Stdout}))
	case canStop && !supervised:
		code, err := supervise(ctx)
		if err != nil {
			return report(err)
		}
		return code
	case supervised:
		go func() { // a supervisor that was killed leaves no process behind
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	return report(servePage(ctx, c, &screen{os.Stdout}))
}

// report prints the error, if any, and returns the exit status for it.
func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "renewdemo:", err)
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return exitFailed
}
