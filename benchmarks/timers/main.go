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
)

type options struct {
	settings
	under, docs, render, json, sample, profile string
}

func main() {
	var o options
	var rows, peers string
	flag.BoolVar(&o.quick, "quick", false, "one round of shorter samples")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds (default 3, or 1 with -quick)")
	flag.StringVar(&rows, "rows", "", "rows to measure, by id or beginning of an id, comma-separated (default all)")
	flag.StringVar(&peers, "peers", "", "peers to measure, comma-separated (default all: "+strings.Join(order(), ",")+")")
	flag.StringVar(&o.under, "exec", "", "command to run each sample under, such as 'taskset -c 2,3'")
	flag.StringVar(&o.docs, "docs", "", "folder in which to write bench/results.json, the charts, and the tables of BENCHMARKS.md")
	flag.StringVar(&o.json, "json", "", "file for the raw results")
	flag.StringVar(&o.render, "render", "", "measure nothing, show the results in these files, comma-separated")
	flag.StringVar(&o.profile, "profile", "", "folder for a CPU profile of each sample of a Go peer")
	flag.StringVar(&o.sample, "sample", "", "take one sample (used by this program itself)")
	flag.Parse()
	o.rows, o.peers = list(rows), list(peers)
	if o.rounds == 0 {
		o.rounds = 3
		if o.quick {
			o.rounds = 1
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "timers:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to undo at the end
	}
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func (o *options) run(ctx context.Context) error {
	switch {
	case o.sample != "":
		return takeSample(o.sample, o.profile)
	case flag.NArg() > 0:
		return fmt.Errorf("no argument is known, got %q", flag.Args())
	}
	r, err := o.results(ctx)
	if err != nil {
		return err
	}
	fmt.Print(r.report())
	if o.json != "" {
		if err := r.save(o.json); err != nil {
			return err
		}
	}
	if o.docs == "" {
		return nil
	}
	return r.document(o.docs)
}

// results are read or measured.
func (o *options) results(ctx context.Context) (*results, error) {
	if o.render != "" {
		return load(list(o.render))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run := &runner{self: self, under: strings.Fields(o.under)}
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
		return nil, errors.New("no such rows or peers")
	}
	r := &results{About: aboutHere()}
	r.About.Rounds, r.About.Quick = o.rounds, o.quick
	r.About.Command = strings.Join(append([]string{"go run ./timers"}, os.Args[1:]...), " ")
	o.startNetty(ctx, run, r, jobs)
	start := time.Now()
	r.Samples, err = run.runAll(ctx, jobs)
	r.About.Minutes = time.Since(start).Minutes()
	return r, err
}

// startNetty builds Netty's program if the plan asks for it. Without it the run
// goes on, and says so at its beginning and in its results.
func (o *options) startNetty(ctx context.Context, run *runner, r *results, jobs []job) {
	wanted := false
	for _, j := range jobs {
		wanted = wanted || j.Peer == netty
	}
	if !wanted {
		return
	}
	j, err := newJVM(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n*** NETTY IS NOT MEASURED: %v ***\n\n", err)
		r.About.Missing = append(r.About.Missing, netty)
		return
	}
	run.netty = j
	r.About.Versions = append(r.About.Versions, j.Netty, j.Java+" "+strings.Join(j.Options, " "))
}
