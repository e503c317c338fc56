// Command leases holds many locks with this module, on either engine, and with other
// lock clients. Each client runs in a process of its own, on a redis-server of its
// own. The program prints what the locks cost and how well they are kept, beside the
// goals. It needs redis-server 7 or later in PATH.
//
//	go run ./leases
//	go run ./leases -quick
//	go run ./leases -only wheel,redsync,cluster:wheel -json results.json
//	go run ./leases -leases 1000,10000,100000,1000000
//	go run ./leases -print results/leases.json
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

const clusterPrefix = "cluster:"

var errInterrupted = errors.New("interrupted")

// config holds the values of the flags.
type config struct {
	plan
	counts []int // more than one number of leases: compare them on our engines
	scale  bool  // counts has several numbers, or -scale is set
	only   []target
	json   string
	print  string
	docs   string
}

var program = bench.Program[config]{Name: "leases", Parse: parse, Run: run, Child: child}

func main() { os.Exit(program.Main()) }

// parse reads the flags and prints its errors to w.
func parse(args []string, w io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("leases", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "10,000 leases of 4.5 s, measured for 4 s: less precise")
	only := f.String("only", strings.Join(defaults(), ","), "comma-separated `candidates`; the prefix "+clusterPrefix+" means a cluster of three masters")
	leases := f.String("leases", "", "`number` of leases (default 100000); several, separated by commas, compare them on our engines")
	f.DurationVar(&c.ttl, "ttl", 0, "TTL of a lease; a third of it is the period of its renewals (default 30s)")
	f.DurationVar(&c.window, "window", 0, "time to measure each candidate (default 20s)")
	f.StringVar(&c.profiles, "profile", "", "`folder` for a CPU profile of each client")
	f.StringVar(&c.json, "json", "", "`file` for the results; figures of other candidates in it are kept and printed (default results/leases.json or results/lease-scale.json, none with -quick)")
	f.StringVar(&c.print, "print", "", "do not measure; print the results in this `file`")
	f.BoolVar(&c.scale, "scale", false, "with -print: the file is of a run with several numbers of leases")
	f.StringVar(&c.docs, "docs", "", "`folder` whose "+bench.Page+" and bench/*.svg to update")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	err := c.fill(*quick, *leases, strings.Split(*only, ","))
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(w, "leases:", err)
	}
	return c, err
}

func defaults() []string {
	var names []string
	for _, c := range candidates() {
		names = append(names, c.name)
	}
	return append(names, clusterPrefix+wheelEngine.name, clusterPrefix+heapEngine.name)
}

// fill sets what the flags left open and checks all values.
func (c *config) fill(quick bool, leases string, only []string) error {
	for text := range strings.FieldsFuncSeq(leases, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("-leases: %q is not a number", text)
		}
		c.counts = append(c.counts, n)
	}
	switch len(c.counts) {
	case 0:
	case 1:
		c.leases = c.counts[0]
	default:
		c.scale = true
	}
	c.plan = c.withDefaults(quick)
	if c.json == "" && c.print == "" {
		name := "leases"
		if c.scale {
			name = "lease-scale"
		}
		c.json = bench.ResultsFile(name, quick)
	}
	for _, name := range only {
		rest, clustered := strings.CutPrefix(name, clusterPrefix)
		found, err := findCandidate(rest)
		if err != nil {
			return err
		}
		c.only = append(c.only, target{found, clustered})
	}
	for _, n := range append(c.counts, c.leases) {
		if n < 100 {
			return fmt.Errorf("-leases must be at least 100, got %d", n)
		}
	}
	if c.ttl < time.Second || c.window < time.Second {
		return errors.New("-ttl and -window must be at least 1s")
	}
	return nil
}

// withDefaults returns the plan with the values that the flags left open.
func (p plan) withDefaults(quick bool) plan {
	leases, ttl, window := 100_000, 30*time.Second, 20*time.Second
	p.saturate = 3 * time.Second
	if quick {
		leases, ttl, window = 10_000, 4500*time.Millisecond, 4*time.Second
		p.saturate = time.Second
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
	period := task{TTL: p.ttl}.period()
	p.settle = period * 5 / 4   // all first renewals have passed, and no burst is at the edge of the window
	p.outage = period * 11 / 10 // each lease is due once
	return p
}

// run measures and prints the results.
func run(ctx context.Context, c config, out, progress io.Writer) error {
	if c.scale {
		return c.runScale(ctx, out, progress)
	}
	if c.print != "" {
		r, err := load[results](c.print)
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

// measureAll measures the targets one after another. failed joins the errors of the
// targets that could not be measured, and of an interrupt, which ends the run.
func (c config) measureAll(ctx context.Context, progress io.Writer) (r *results, failed, err error) {
	r = &results{Leases: c.leases, Figures: map[string]figures{}}
	if r.setup, err = newSetup(ctx, c.plan); err != nil {
		return nil, nil, err
	}
	if r.Idle, err = c.idle(ctx); err != nil {
		return nil, nil, err
	}
	for _, t := range c.only {
		began := time.Now()
		fmt.Fprintf(progress, "%s ...", t.title())
		f, err := c.measure(ctx, t, r.Idle)
		switch {
		case ctx.Err() != nil:
			return r, errors.Join(failed, errInterrupted), nil
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.title(), err))
			fmt.Fprintln(progress, " failed:", err)
			continue
		}
		fmt.Fprintf(progress, " %v\n", time.Since(began).Round(time.Second))
		r.Figures[t.title()] = f
	}
	return r, failed, nil
}

// title returns the name of a target in tables.
func (t target) title() string {
	if t.clustered {
		return clusterPrefix + t.name
	}
	return t.name
}

// publish prints the tables and updates the document if the flags ask for it.
func (r *results) publish(c config, out io.Writer) error {
	_, err := io.WriteString(out, "\n"+r.report())
	if err != nil || c.docs == "" {
		return err
	}
	return r.document(c.docs)
}
