// Command locks compares this module with other lock clients: uncontended locks, a
// contended lock, and many locks as one. Each client runs in a process of its own on a
// redis-server of its own. The program needs redis-server 7 or later in PATH.
//
//	go run ./locks
//	go run ./locks -quick
//	go run ./locks -work hand-over,uncontended\ 64 -json results.json
//	go run ./locks -print -docs ../docs
//
// docs/BENCHMARKS.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// The kinds of work. The first two are followed by a number of goroutines, or of clients that contend.
const (
	workUncontended = "uncontended"
	workHandOver    = "hand-over"
	workBatches     = "batches"
)

// The numbers of goroutines, and of clients that contend.
var (
	goroutines = []int{1, 8, 64}
	contenders = []int{2, 8, 64}
)

var window time.Duration // of each measurement; 0 means the default

var program = bench.Program{
	Name:  "locks",
	Path:  "results/locks.json",
	Quick: "measure each candidate for half a second",
	Flags: func(f *flag.FlagSet) {
		f.DurationVar(&window, "window", 0, "time to measure each candidate (default 3s)")
	},
	Plan: plan, Child: child, Sections: sections,
}

func main() { os.Exit(program.Main()) }

func plan(o bench.Options) ([]bench.Job, map[string]string, error) {
	switch {
	case window == 0 && o.Quick:
		window = 500 * time.Millisecond
	case window == 0:
		window = 3 * time.Second
	case window < 100*time.Millisecond:
		return nil, nil, errors.New("-window must be at least 100ms")
	}
	redis, err := bench.RedisVersion()
	if err != nil {
		return nil, nil, err
	}
	var jobs []bench.Job
	add := func(t task) {
		jobs = append(jobs, bench.Job{Work: t.name(), Candidate: t.Candidate, Measure: func(context.Context) (bench.Values, error) { return measure(t) }})
	}
	for _, n := range goroutines {
		for _, c := range candidates() {
			add(task{Work: workUncontended, Candidate: c.name, Goroutines: n, Window: window})
		}
	}
	for _, n := range contenders {
		for _, c := range candidates() {
			add(task{Work: workHandOver, Candidate: c.name, Goroutines: n, Window: window})
		}
	}
	each := window / time.Duration(len(memberCounts))
	for _, c := range batchCandidates() {
		add(task{Work: workBatches, Candidate: c.name, Window: each})
	}
	return jobs, map[string]string{"Redis": redis, "window": window.String()}, nil
}

// name returns the name of the work in the results.
func (t task) name() string {
	if t.Goroutines == 0 {
		return t.Work
	}
	return fmt.Sprint(t.Work, " ", t.Goroutines)
}
