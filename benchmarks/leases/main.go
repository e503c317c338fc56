// Command leases holds many locks with this module, on either engine, and with other
// lock clients. Each client runs in a process of its own, on a redis-server of its
// own. The program prints what the locks cost and how well they are kept, beside the
// goals. It needs redis-server 7 or later in PATH.
//
//	go run ./leases
//	go run ./leases -quick
//	go run ./leases -only wheel,redsync,cluster:wheel -json results.json
//	go run ./leases -leases 1000,10000,100000,1000000
//	go run ./leases -print -docs ../docs
//
// docs/BENCHMARKS.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

const clusterPrefix = "cluster:" // of candidates: three masters instead of a single server

// The kinds of work, which are followed by the number of leases: to hold leases with all candidates, and to hold
// several numbers of them with our engines.
const (
	workHold  = "hold"
	workScale = "scale"
)

// flags are those of this program; 0 means the default.
var flags struct {
	leases      string
	ttl, window time.Duration
}

var program = bench.Program{
	Name:  "leases",
	Path:  "results/leases.json",
	Quick: "10,000 leases of 4.5 s, measured for 4 s",
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&flags.leases, "leases", "", "`number` of leases (default 100000); several, separated by commas, compare them on our engines")
		f.DurationVar(&flags.ttl, "ttl", 0, "TTL of a lease; a third of it is the period of its renewals (default 30s)")
		f.DurationVar(&flags.window, "window", 0, "time to measure each candidate (default 20s)")
	},
	Plan: planned, Child: child, Sections: sections,
}

func main() { os.Exit(program.Main()) }

// plan holds what to measure and how long.
type plan struct {
	leases int
	ttl    time.Duration
	settle time.Duration // between acquiring and measuring
	window time.Duration // measured
	outage time.Duration // measured with one master hanging, and with it dead
}

// planned returns the jobs that the flags select.
func planned(o bench.Options) ([]bench.Job, map[string]string, error) {
	p := plan{leases: 100_000, ttl: 30 * time.Second, window: 20 * time.Second}
	if o.Quick {
		p = plan{leases: 10_000, ttl: 4500 * time.Millisecond, window: 4 * time.Second}
	}
	if flags.ttl != 0 {
		p.ttl = flags.ttl
	}
	if flags.window != 0 {
		p.window = flags.window
	}
	if p.ttl < time.Second || p.window < time.Second {
		return nil, nil, errors.New("-ttl and -window must be at least 1s")
	}
	period := task{TTL: p.ttl}.period()
	p.settle = period * 5 / 4   // all first renewals have passed, and no burst is at the edge of the window
	p.outage = period * 11 / 10 // each lease is due once
	var counts []int
	for text := range strings.FieldsFuncSeq(flags.leases, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 100 {
			return nil, nil, fmt.Errorf("-leases: %q is not a number of at least 100", text)
		}
		counts = append(counts, n)
	}
	redis, err := bench.RedisVersion()
	if err != nil {
		return nil, nil, err
	}
	notes := map[string]string{"Redis": redis, "TTL": p.ttl.String(), "window": p.window.String(), "period": period.String()}
	if len(counts) > 1 {
		var jobs []bench.Job
		for _, n := range counts {
			p.leases = n
			jobs = append(jobs, p.jobs(workScale, wheelEngine.name, heapEngine.name)...)
		}
		return jobs, notes, nil
	}
	if counts != nil {
		p.leases = counts[0]
	}
	return p.jobs(workHold, names()...), notes, nil
}

// names returns the names of all candidates, in the order of the tables.
func names() []string {
	var all []string
	for _, c := range candidates() {
		all = append(all, c.name)
	}
	return append(all, clusterPrefix+wheelEngine.name, clusterPrefix+heapEngine.name)
}

// jobs returns a job for each candidate. The first one also measures the idle server.
func (p plan) jobs(work string, names ...string) []bench.Job {
	var jobs []bench.Job
	var once sync.Once
	var idle float64
	for _, name := range names {
		jobs = append(jobs, bench.Job{Work: fmt.Sprint(work, " ", p.leases), Candidate: name, Measure: func(ctx context.Context) (v bench.Values, err error) {
			once.Do(func() { idle, err = p.idle(ctx) })
			if err != nil {
				return nil, err
			}
			return p.measure(ctx, name, idle)
		}})
	}
	return jobs
}
