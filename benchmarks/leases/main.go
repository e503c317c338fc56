// Command leases holds many locks at once with this module, on either engine, and
// with other lock clients, each in a process of its own on a redis-server of its
// own, and prints what that costs and how well they are kept, beside the goals.
// It needs redis-server, version 7 or later, in PATH and nothing else.
//
//	go run ./leases
//	go run ./leases -quick
//	go run ./leases -only wheel,redsync,cluster:wheel -json results.json
//	go run ./leases -print results.json
//
// docs/BENCHMARKS-LEASES.md tells what each figure means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

const clusterPrefix = "cluster:"

// config is what the flags say.
type config struct {
	plan
	only  []lineUp
	json  string
	print string
	docs  string
}

var program = bench.Program[config]{Name: "leases", Parse: parse, Run: run, Child: child}

func main() { os.Exit(program.Status()) }

// parse reads the flags; errors have been printed to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("leases", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "10,000 leases of 4.5 s, measured for 4 s: a rough picture")
	only := f.String("only", strings.Join(defaults(), ","), "`contestants`, with "+clusterPrefix+" in front on a cluster of three masters")
	f.IntVar(&c.leases, "leases", 0, "how many to hold (default 100000)")
	f.DurationVar(&c.ttl, "ttl", 0, "of a lease, renewed after each third of it (default 30s)")
	f.DurationVar(&c.window, "window", 0, "how long to measure each contestant (default 20s)")
	f.StringVar(&c.profiles, "profile", "", "`folder` for a CPU profile of each client")
	f.StringVar(&c.json, "json", "", "`file` for the results; those of other contestants that it has already are kept, and printed too")
	f.StringVar(&c.print, "print", "", "measure nothing, print the results in this `file`")
	f.StringVar(&c.docs, "docs", "", "`folder` in which to write bench/leases.json, bench/leases.svg and the tables of BENCHMARKS-LEASES.md")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	c.plan = c.withDefaults(*quick)
	err := c.choose(strings.Split(*only, ","))
	if f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(w, "leases:", err)
	}
	return c, err
}

func defaults() []string {
	var names []string
	for _, c := range contestants() {
		names = append(names, c.name)
	}
	return append(names, clusterPrefix+wheelEngine.name, clusterPrefix+heapEngine.name)
}

func (c *config) choose(names []string) error {
	for _, name := range names {
		rest, clustered := strings.CutPrefix(name, clusterPrefix)
		found, err := find(rest)
		if err != nil {
			return err
		}
		c.only = append(c.only, lineUp{found, clustered})
	}
	if c.leases < 100 || c.ttl < time.Second || c.window < time.Second {
		return errors.New("fewer than 100 leases, a TTL or a time below 1 s cannot be measured")
	}
	return nil
}

// withDefaults fills in what the flags left open.
func (p plan) withDefaults(quick bool) plan {
	leases, ttl, window := 100_000, 30*time.Second, 20*time.Second
	p.flatOut = 3 * time.Second
	if quick {
		leases, ttl, window = 10_000, 4500*time.Millisecond, 4*time.Second
		p.flatOut = time.Second
	}
	if p.leases == 0 {
		p.leases = leases
	}
	if p.ttl == 0 {
		p.ttl = ttl
	}
	if p.window == 0 {
		p.window = window
	}
	period := order{TTL: p.ttl}.period()
	p.settle = period * 5 / 4   // the first renewals are over, and bursts are not at the edge of the window
	p.outage = period * 11 / 10 // each lease comes due once
	return p
}

// run measures, and prints what was measured.
func run(ctx context.Context, c config, out, progress io.Writer) error {
	if c.print != "" {
		r, err := load(c.print)
		if err != nil {
			return err
		}
		return r.publish(c, out)
	}
	r, failed, err := c.measureAll(ctx, progress)
	if err != nil {
		return err
	}
	if c.json != "" {
		if err := r.save(c.json); err != nil {
			return err
		}
	}
	return errors.Join(r.publish(c, out), failed)
}

// measureAll measures the contestants, one after another. One that cannot be
// measured does not keep the others from being; failed tells of it, and of an
// interrupt, which ends the measuring.
func (c config) measureAll(ctx context.Context, progress io.Writer) (r *results, failed, err error) {
	if r, err = newResults(ctx, c.plan); err != nil {
		return nil, nil, err
	}
	if r.Idle, err = c.idle(ctx); err != nil {
		return nil, nil, err
	}
	for _, l := range c.only {
		began := time.Now()
		fmt.Fprintf(progress, "%s ...", l.title())
		f, err := c.measure(ctx, l, r.Idle)
		switch {
		case ctx.Err() != nil:
			return r, errors.Join(failed, errors.New("interrupted")), nil
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", l.title(), err))
			fmt.Fprintln(progress, " failed:", err)
			continue
		}
		fmt.Fprintf(progress, " %v\n", time.Since(began).Round(time.Second))
		r.Figures[l.title()] = f
	}
	return r, failed, nil
}

// title names a contestant and where it is.
func (l lineUp) title() string {
	if l.clustered {
		return clusterPrefix + l.name
	}
	return l.name
}

// publish prints the tables, and writes them where the flags say.
func (r *results) publish(c config, out io.Writer) error {
	_, err := io.WriteString(out, "\n"+r.report())
	if err != nil || c.docs == "" {
		return err
	}
	return r.document(c.docs)
}
