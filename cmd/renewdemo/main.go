// Command renewdemo holds many locks and shows how they are renewed, on a store in memory or on
// a Redis server. It can inject faults. It then checks that exactly the holders of lost leases
// were notified, and in time. With -proof it shows the order of events when a holder is cut off
// or paused and a rival gets its lock. With -check it prints what is unsafe for locks at a server.
//
//	go run ./cmd/renewdemo
//	go run ./cmd/renewdemo -engine heap -leases 100000 -redis localhost:6379 -for 60s
//	go run ./cmd/renewdemo -fault steal
//	go run ./cmd/renewdemo -proof
//	go run ./cmd/renewdemo -check -redis localhost:6379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // 128 + SIGINT, as shells report it
)

func main() { os.Exit(status()) }

// status runs the program and returns its exit status.
func status() int {
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
	case c.check:
		return report(check(ctx, c, os.Stdout))
	case c.proof:
		return report(prove(ctx, c, newScreen(os.Stdout)))
	case c.fault == "pause" && os.Getenv(supervisedEnv) == "":
		code, err := supervise(ctx, c.pause())
		if err != nil {
			return report(err)
		}
		return code
	}
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the release
	return report(run(ctx, c, newScreen(os.Stdout)))
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
