// Command stores compares the stores of this module: the cost of an uncontended lock, the time of a
// hand-over between two clients, the cost of renewals, and the load while nothing changes. It starts a server of its own for each
// store, one after the other, and measures all of them in one run.
//
//	go run .
//	go run . -quick
//	go run . -only redis,postgres -work pair,renewals
//	go run . -load
//	go run . -print -docs ../../docs
//
// docs/STORES.md explains the figures. A store whose server is not installed is left out, with a message.
package main

import (
	"context"
	"flag"
	"os"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// The kinds of work. Renewals are followed by the number of leases.
const (
	workPair     = "pair"
	workHandOver = "hand-over"
	workRenewals = "renewals"
)

// leaseNumbers are the numbers of leases whose renewals are measured.
var leaseNumbers = []int{1000, 10_000, 100_000}

var onlyLoad bool

var program = bench.Program{
	Name:  "stores",
	Path:  "../results/stores.json",
	Quick: "measure for a shorter time, and 100 leases only",
	Flags: func(f *flag.FlagSet) {
		f.BoolVar(&onlyLoad, "load", false, "measure only the load of locks that are held or waited for")
	},
	Plan: plan, Child: child, Sections: sections,
}

func main() {
	code := program.Main()
	running.stop()
	os.Exit(code)
}

// terms are those of the measurements.
type terms struct {
	window time.Duration // of the pairs and of the hand-overs
	ttl    time.Duration // of the leases whose renewals are measured
}

func plan(o bench.Options) ([]bench.Job, map[string]string, error) {
	t, leases := terms{5 * time.Second, 30 * time.Second}, leaseNumbers
	if o.Quick {
		t, leases = terms{300 * time.Millisecond, 6 * time.Second}, []int{100}
	}
	notes := map[string]string{"window": t.window.String(), "TTL": t.ttl.String()}
	var jobs []bench.Job
	for _, c := range candidates() {
		add := func(work string, measure func(ctx context.Context, s *server) (bench.Values, error)) {
			jobs = append(jobs, bench.Job{Work: work, Candidate: c.name, Measure: func(ctx context.Context) (bench.Values, error) {
				s, err := running.start(ctx, c)
				if err != nil {
					return nil, err
				}
				notes[c.name] = s.version
				return measure(ctx, s)
			}})
		}
		if onlyLoad {
			for _, l := range loads() {
				add(l.name(), l.measure)
			}
			continue
		}
		add(workPair, t.pair)
		add(workHandOver, t.handOver)
		for _, n := range leases {
			if c.limit == 0 || n <= c.limit {
				add(workRenewals+" "+strconv.Itoa(n), func(ctx context.Context, s *server) (bench.Values, error) { return t.renewals(ctx, s, n) })
			}
		}
	}
	return jobs, notes, nil
}

// running is the server of the last job. The next job of the same store uses it, too.
var running keeper

type keeper struct {
	name   string
	server *server
}

func (k *keeper) start(ctx context.Context, c candidate) (*server, error) {
	if k.name == c.name {
		return k.server, nil
	}
	k.stop()
	s, err := c.start(ctx)
	if err == nil {
		*k = keeper{c.name, s}
	}
	return s, err
}

func (k *keeper) stop() {
	if k.server != nil {
		k.server.stop()
	}
	*k = keeper{}
}
