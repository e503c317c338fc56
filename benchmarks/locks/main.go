// Command locks compares this module with other lock clients: uncontended locks, a
// contended lock, and many locks as one. Each client runs in a process of its own on a
// redis-server of its own. The program needs redis-server 7 or later in PATH. With
// Java and Maven it measures Redisson, too.
//
//	go run ./locks
//	go run ./locks -quick
//	go run ./locks -only handover -clients 2,64 -json results.json
//	go run ./locks -print results/locks.json
//
// docs/BENCHMARKS.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// config holds the values of the flags.
type config struct {
	window  time.Duration
	works   []string
	clients []int
	profile string
	json    string
	print   string
	docs    string
}

var program = bench.Program[config]{Name: "locks", Parse: parse, Run: run, Child: child}

func main() { os.Exit(program.Main()) }

// parse reads the flags and prints its errors to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("locks", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "measure each candidate for half a second: less precise")
	f.DurationVar(&c.window, "window", 0, "time to measure each candidate (default 3s)")
	only := f.String("only", strings.Join([]string{workUncontended, workHandOver, workBatches}, ","), "comma-separated kinds of `work`")
	clients := f.String("clients", "", "comma-separated `numbers` of goroutines, or of clients that contend (default 1,8,64 and 2,8,64)")
	f.StringVar(&c.profile, "profile", "", "`folder` for a CPU profile of each client")
	f.StringVar(&c.json, "json", "", "`file` for the results; other figures in it are kept and printed (default results/locks.json, none with -quick)")
	f.StringVar(&c.print, "print", "", "do not measure; print the results in this `file`")
	f.StringVar(&c.docs, "docs", "", "`folder` whose "+bench.Page+" and bench/batches.svg to update")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	err := c.fill(*quick, *only, *clients)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(w, "locks:", err)
	}
	return c, err
}

// fill sets what the flags left open and checks all values.
func (c *config) fill(quick bool, only, clients string) error {
	if c.json == "" && c.print == "" {
		c.json = bench.ResultsFile("locks", quick)
	}
	switch {
	case c.window == 0 && quick:
		c.window = 500 * time.Millisecond
	case c.window == 0:
		c.window = 3 * time.Second
	case c.window < 100*time.Millisecond:
		return errors.New("-window must be at least 100ms")
	}
	for work := range strings.SplitSeq(only, ",") {
		if work != workUncontended && work != workHandOver && work != workBatches {
			return fmt.Errorf("-only: unknown work %q", work)
		}
		c.works = append(c.works, work)
	}
	if clients == "" {
		return nil
	}
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients: %q is not a positive number", text)
		}
		c.clients = append(c.clients, n)
	}
	return nil
}

// numbers returns the numbers of goroutines or clients to measure with.
func (c config) numbers(defaults ...int) []int {
	if c.clients != nil {
		return c.clients
	}
	return defaults
}

// run measures and prints the results.
func run(ctx context.Context, c config, out, progress io.Writer) error {
	r, failed := &results{}, error(nil)
	if c.print != "" {
		if err := r.load(c.print); err != nil {
			return err
		}
	} else {
		var err error
		if r, err = newResults(ctx, c.window); err != nil {
			return err
		}
		failed = r.measure(ctx, c, progress)
	}
	if c.json != "" {
		if err := r.save(c.json); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, "\n"+r.report()); err != nil {
		return err
	}
	if c.docs != "" {
		return errors.Join(r.document(c.docs), failed)
	}
	return failed
}
