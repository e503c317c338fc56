// Command timers measures the timer engines of this module and the timers that a
// program could use instead, and compares the figures with goals.
//
//	go run ./timers                     # all rows, about an hour
//	go run ./timers -quick              # three minutes, less precise
//	go run ./timers -work replace,reset -only wheel,std
//	go run ./timers -print -docs ../docs
//
// Each sample runs in a process of its own: a child of this program, or a JVM for
// Netty. Within a round the peers of a row run one after another. A ratio
// is the median over the rounds of the ratio within a round, so a machine that is
// slow for a while slows down both sides of a ratio.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

var rounds int // 0 means the default

var program = bench.Program{
	Name:  "timers",
	Path:  "results/timers.json",
	Quick: "one round of shorter samples",
	Flags: func(f *flag.FlagSet) {
		f.IntVar(&rounds, "rounds", 0, "rounds (default 3, or 1 with -quick)")
	},
	Plan: planned, Child: child, Sections: sections,
}

func main() { os.Exit(program.Main()) }

// planned returns the jobs that the flags select. If Netty cannot be measured, it prints a warning and leaves it out.
func planned(o bench.Options) ([]bench.Job, map[string]string, error) {
	switch {
	case rounds == 0 && o.Quick:
		rounds = 1
	case rounds == 0:
		rounds = 3
	}
	notes := environment()
	var java *jvm
	var jobs []bench.Job
	for _, j := range plan(o.Quick, rounds) {
		one := bench.Job{Work: j.Spec.name(), Candidate: j.Peer, Round: j.Round}
		take := j.inChild
		if j.Peer == netty && o.Selects(one) {
			if java == nil {
				var err error
				if java, err = newJVM(context.Background()); err != nil {
					fmt.Fprintf(os.Stderr, "\n*** NETTY IS NOT MEASURED: %v ***\n\n", err)
					java = new(jvm)
				} else {
					notes[netty] = java.Netty + ", " + java.Java + " " + strings.Join(java.Options, " ")
				}
			}
			if java.folder == "" {
				continue
			}
			take = func(ctx context.Context) (values, error) { return java.sample(ctx, j) }
		}
		one.Measure = func(ctx context.Context) (bench.Values, error) { return j.measure(ctx, take) }
		jobs = append(jobs, one)
	}
	return jobs, notes, nil
}

// measure takes a sample up to three times: the machine may be too busy to schedule
// all timers before the first is due.
func (j job) measure(ctx context.Context, take func(ctx context.Context) (values, error)) (values, error) {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute+j.Spec.For)
		v, err := take(limited)
		cancel()
		switch {
		case err != nil && j.Spec.Work == "probe" && ctx.Err() == nil:
			return nil, bench.OutcomeError("no result")
		case err != nil:
			return nil, err
		case v[tooSlow] > 0:
			return nil, bench.OutcomeError(fmt.Sprintf("not scheduled in %.0f s", v[tooSlow]))
		case v[tooLarge] > 0:
			return nil, bench.OutcomeError(fmt.Sprintf("needs over %.0f GiB", v[tooLarge]))
		case v[setupDelay] > 0 && attempt == attempts:
			return nil, bench.OutcomeError("the machine was too busy")
		case v[setupDelay] > 0:
			continue
		}
		return v, nil
	}
}

// inChild takes a sample in a process of its own.
func (j job) inChild(ctx context.Context) (values, error) {
	process, err := bench.Start(job{Peer: j.Peer, Spec: j.Spec.forPeer(j.Peer)})
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	defer process.KillAfter(ctx)()
	return process.Call("begin")
}

// child serves the requests of the parent.
func child(in io.Reader, out io.Writer) error {
	return bench.Serve(in, out, func(j job) (func(string) (values, error), error) {
		p, err := peerNamed(j.Peer)
		return func(string) (values, error) { return p.run(j.Spec) }, err
	})
}

// environment returns the versions of the system and of the peers, and what the clock and a lock cost.
func environment() map[string]string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only Linux has it
	notes := map[string]string{"system": strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + string(release))}
	clock, lock := clockAndLock()
	notes["clock"], notes["lock"] = fmt.Sprintf("%.0f ns", clock), fmt.Sprintf("%.0f ns", lock)
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return notes
	}
	for _, m := range build.Deps {
		for _, peer := range []string{"antlabs/timer", "RussellLuo/timingwheel"} {
			if strings.HasSuffix(m.Path, peer) {
				notes[peer] = m.Version
			}
		}
	}
	return notes
}

// clockAndLock measures the two operations that every engine needs, in ns.
func clockAndLock() (clock, lock float64) {
	const n = 2_000_000
	start := now()
	for range n {
		_ = now()
	}
	mid := now()
	var mu sync.Mutex
	for range n {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // the empty section is what is measured
	}
	return float64(mid-start) / n, float64(now()-mid) / n
}
