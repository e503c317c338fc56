// Command locks measures this module beside other lock clients: locks that nobody
// else wants, a lock that many want, and many locks at once; each contestant in a
// process of its own on a redis-server of its own. It needs redis-server, version 7
// or later, in PATH; with Java and Maven, Redisson is measured too.
//
//	go run ./locks
//	go run ./locks -quick
//	go run ./locks -only handover -clients 2,64 -json results.json
//	go run ./locks -print results.json
//
// docs/BENCHMARKS-LOCKS.md tells what each figure means.
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

// config is what the flags say.
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

func main() { os.Exit(program.Status()) }

// parse reads the flags; errors have been printed to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("locks", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "measure each contestant for half a second: a rough picture")
	f.DurationVar(&c.window, "window", 0, "how long to measure each contestant (default 3s)")
	only := f.String("only", strings.Join([]string{workPairs, workHandOver, workBatches}, ","), "`what` to measure")
	clients := f.String("clients", "", "how `many` goroutines, or clients that contend (default 1,8,64 and 2,8,64)")
	f.StringVar(&c.profile, "profile", "", "`folder` for a CPU profile of each client")
	f.StringVar(&c.json, "json", "", "`file` for the results; what it has that is not measured anew is kept, and printed too")
	f.StringVar(&c.print, "print", "", "measure nothing, print the results in this `file`")
	f.StringVar(&c.docs, "docs", "", "`folder` in which to write bench/locks.json, bench/batches.svg and the tables of BENCHMARKS-LOCKS.md")
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

// fill fills in what the flags left open, and checks what they say.
func (c *config) fill(quick bool, only, clients string) error {
	switch {
	case c.window == 0 && quick:
		c.window = 500 * time.Millisecond
	case c.window == 0:
		c.window = 3 * time.Second
	case c.window < 100*time.Millisecond:
		return errors.New("less than 100 ms cannot be measured")
	}
	for work := range strings.SplitSeq(only, ",") {
		if work != workPairs && work != workHandOver && work != workBatches {
			return fmt.Errorf("what is %q?", work)
		}
		c.works = append(c.works, work)
	}
	if clients == "" {
		return nil
	}
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of clients", text)
		}
		c.clients = append(c.clients, n)
	}
	return nil
}

// numbers returns how many goroutines or clients to measure with.
func (c config) numbers(byDefault ...int) []int {
	if c.clients != nil {
		return c.clients
	}
	return byDefault
}

// run measures, and prints what was measured.
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
