// The flags and the main function of this program.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

type options struct {
	settings
	wrapper string // command that runs each sample
	docs    string
	render  string
	compare string
	json    string
	sample  string
	profile string
	hiccups bool
}

func main() {
	var o options
	var rows, peers string
	flag.BoolVar(&o.quick, "quick", false, "one round of shorter samples")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds (default 3, or 1 with -quick)")
	flag.StringVar(&rows, "rows", "", "comma-separated `ids` of rows, or first parts of ids (default all)")
	flag.StringVar(&peers, "peers", "", "comma-separated `names` (default all: "+strings.Join(order(), ",")+")")
	flag.StringVar(&o.wrapper, "exec", "", "`command` that runs each sample, such as 'taskset -c 2,3'")
	flag.StringVar(&o.docs, "docs", "", "`folder` whose "+bench.Page+" and bench/*.svg to update")
	flag.StringVar(&o.json, "json", "", "`file` for the results (default results/timers.json, none with -quick)")
	flag.StringVar(&o.render, "render", "", "do not measure; show the results in these comma-separated `files`")
	flag.StringVar(&o.compare, "compare", "", "comma-separated `files` with results of another Go release, to be compared in the document")
	flag.StringVar(&o.profile, "profile", "", "`folder` for a CPU profile of each sample of a Go peer")
	flag.BoolVar(&o.hiccups, "hiccups", false, "measure the hiccups of the machine (this program calls itself with it)")
	flag.StringVar(&o.sample, "sample", "", "take one sample (this program calls itself with it)")
	flag.Parse()
	o.rows, o.peers = splitList(rows), splitList(peers)
	if o.rounds == 0 {
		o.rounds = 3
		if o.quick {
			o.rounds = 1
		}
	}
	if o.json == "" && o.render == "" {
		o.json = bench.ResultsFile("timers", o.quick)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "timers:", err)
		os.Exit(1) //nolint:gocritic // the process ends, so stop is not needed
	}
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func (o *options) run(ctx context.Context) error {
	switch {
	case o.hiccups:
		return meterMachine(os.Stdin, os.Stdout)
	case o.sample != "":
		return takeSample(o.sample, o.profile)
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected arguments %q", flag.Args())
	}
	r, err := o.results(ctx)
	if err != nil {
		return err
	}
	fmt.Print(r.report())
	if err := o.save(r); err != nil {
		return err
	}
	return o.publish(r)
}

// publish updates the document and prints the comparison of two Go releases, if the
// flags ask for them.
func (o *options) publish(r *results) error {
	if o.docs != "" {
		if err := r.document(o.docs); err != nil {
			return err
		}
	}
	if o.compare == "" {
		return nil
	}
	other, err := load(splitList(o.compare))
	if err != nil {
		return err
	}
	table := compare(r, other)
	fmt.Print("\n" + table)
	if o.docs == "" {
		return nil
	}
	return bench.Document(filepath.Join(o.docs, bench.Page), "releases", "\n"+table)
}

// results reads the results from files, or measures them.
func (o *options) results(ctx context.Context) (*results, error) {
	if o.render != "" {
		return load(splitList(o.render))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run := &runner{self: self, wrapper: strings.Fields(o.wrapper)}
	if o.profile != "" {
		if run.profile, err = filepath.Abs(o.profile); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(run.profile, 0o755); err != nil {
			return nil, err
		}
	}
	jobs := o.plan()
	if len(jobs) == 0 {
		return nil, errors.New("no row and peer matches -rows and -peers")
	}
	r := &results{Environment: thisEnvironment()}
	this := runInfo{
		Command: strings.Join(append([]string{"go run ./timers"}, os.Args[1:]...), " "),
		Rounds:  o.rounds, Quick: o.quick, LoadBefore: bench.Load(),
	}
	o.startNetty(ctx, run, r, jobs)
	start := time.Now()
	err = run.runAll(ctx, jobs, func(s sample) error {
		r.Samples = append(r.Samples, s)
		this.Minutes, this.LoadAfter = time.Since(start).Minutes(), bench.Load()
		r.Runs = []runInfo{this}
		return o.save(r)
	})
	return r, err
}

// save writes the results to the file that the flags name. It runs after each
// sample, so that an interrupted run keeps its samples.
func (o *options) save(r *results) error {
	if o.json == "" {
		return nil
	}
	return bench.Save(o.json, r)
}

// startNetty builds the Java program if the plan has samples of Netty. If that
// fails, it prints a warning, notes it in the results, and the run goes on.
func (o *options) startNetty(ctx context.Context, run *runner, r *results, jobs []job) {
	needed := false
	for _, j := range jobs {
		needed = needed || j.Peer == netty
	}
	if !needed {
		return
	}
	j, err := newJVM(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n*** NETTY IS NOT MEASURED: %v ***\n\n", err)
		r.Environment.Missing = append(r.Environment.Missing, netty)
		return
	}
	run.netty = j
	r.Environment.Versions = append(r.Environment.Versions, j.Netty, j.Java+" "+strings.Join(j.Options, " "))
}
