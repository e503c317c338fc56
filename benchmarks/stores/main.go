// Command stores compares the stores of this module: the cost of an uncontended lock, the time of a
// hand-over between two clients, the cost of renewals, and the load while nothing changes. It starts a server of its own for each
// store, one after the other, and measures all of them in one run.
//
//	go run .
//	go run . -quick
//	go run . -only redis,postgres -leases 1000
//	go run . -load
//	go run . -print ../results/stores.json -docs ../../docs
//
// docs/STORES.md explains the figures. A store whose server is not installed is left out, with a message.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// config holds the values of the flags.
type config struct {
	window time.Duration // of the pairs and of the hand-overs
	ttl    time.Duration // of the leases whose renewals are measured
	only   []string
	leases []int
	load   bool
	json   string
	print  string
	docs   string
}

var program = bench.Program[config]{Name: "stores", Parse: parse, Run: run, Child: child}

func main() { os.Exit(program.Main()) }

// parse reads the flags and prints its errors to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("stores", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "measure for a shorter time, and 100 leases only: less precise")
	only := f.String("only", "", "comma-separated `names` of stores (default: all)")
	leases := f.String("leases", "", "comma-separated `numbers` of leases (default 1000,10000,100000)")
	f.BoolVar(&c.load, "load", false, "measure only the load of locks that are held or waited for")
	f.StringVar(&c.json, "json", "", "`file` for the results; other figures in it are kept and printed (default ../results/stores.json, none with -quick)")
	f.StringVar(&c.print, "print", "", "do not measure; print the results in this `file`")
	f.StringVar(&c.docs, "docs", "", "`folder` whose "+page+" and bench/stores.svg to update")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	err := c.fill(*quick, *only, *leases)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(w, "stores:", err)
	}
	return c, err
}

// fill sets what the flags left open and checks all values.
func (c *config) fill(quick bool, only, leases string) error {
	c.window, c.ttl, c.leases = 5*time.Second, 30*time.Second, []int{1000, 10_000, 100_000}
	if quick {
		c.window, c.ttl, c.leases = 300*time.Millisecond, 6*time.Second, []int{100}
	}
	if c.json == "" && c.print == "" && !quick {
		c.json = "../results/stores.json"
	}
	for name := range strings.SplitSeq(only, ",") {
		if only == "" {
			break
		}
		if !slices.ContainsFunc(candidates(), func(c candidate) bool { return c.name == name }) {
			return fmt.Errorf("-only: unknown store %q", name)
		}
		c.only = append(c.only, name)
	}
	if leases == "" {
		return nil
	}
	c.leases = nil
	for text := range strings.SplitSeq(leases, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-leases: %q is not a positive number", text)
		}
		c.leases = append(c.leases, n)
	}
	return nil
}

// selected reports whether the flags select a store.
func (c *config) selected(name string) bool { return c.only == nil || slices.Contains(c.only, name) }

// run measures and prints the results.
func run(ctx context.Context, c config, out, progress io.Writer) error {
	r, failed := newResults(c), error(nil)
	if c.print != "" {
		if err := r.load(c.print); err != nil {
			return err
		}
	} else {
		if c.load { // keeps the other figures
			if err := r.load(c.json); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		failed = r.measure(ctx, c, progress)
	}
	if c.json != "" {
		if err := r.save(c.json); err != nil {
			return errors.Join(err, failed)
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
