// The flags, and the order of the rounds.

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/internal/report"
)

// config holds the values of the flags.
type config struct {
	clients, faults []string
	rounds          int
	parallel        int
	most            time.Duration
	seed            uint64
	quick           bool
	json            string
	print           string
	docs            string
}

func main() {
	if name := os.Getenv(peerEnv); name != "" {
		logging.Disable() // go-redis prints each failed dial
		exit(runPeer(name, os.Args[1:]))
		return
	}
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		os.Exit(2)
	default:
		exit(run(c, os.Stdout, os.Stderr))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// parse reads the flags and prints its errors to w.
func parse(args []string, w io.Writer) (config, error) {
	c := config{}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(w)
	quick := f.Bool("quick", false, "two clients and one round, and no results file")
	clients := f.String("clients", "", "comma-separated `names` of clients (default all)")
	names := f.String("faults", "", "comma-separated `names` of faults (default all)")
	f.IntVar(&c.rounds, "rounds", 20, "the rounds of each client and fault; 64 waiters are played a quarter of them")
	f.DurationVar(&c.most, "for", time.Hour, "begin no round after this `time`, except those of 64 waiters, which come last")
	f.IntVar(&c.parallel, "parallel", 16, "how many rounds are played at a time")
	f.Uint64Var(&c.seed, "seed", 1, "the seed of the random times")
	f.StringVar(&c.json, "json", "", "`file` for the rows; those of other clients and faults in it are kept (default results/compare.json, none with -quick)")
	f.StringVar(&c.print, "print", "", "play nothing; print the rows in this `file`")
	f.StringVar(&c.docs, "docs", "", "`folder` whose COMPARISON.md and img/comparison.svg to update")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if err := c.fill(*quick, *clients, *names); err != nil {
		fmt.Fprintln(w, "compare:", err)
		return c, err
	}
	return c, nil
}

// fill sets what the flags left open, and checks the names.
func (c *config) fill(quick bool, clients, names string) error {
	switch {
	case quick:
		c.rounds, c.clients, c.docs, c.quick = 1, []string{ours, "redislock"}, "", true
	case c.json == "":
		c.json = "results/compare.json"
	}
	if clients != "" {
		c.clients = strings.Split(clients, ",")
	}
	if c.clients == nil {
		for _, k := range candidates() {
			if !k.hidden {
				c.clients = append(c.clients, k.name)
			}
		}
	}
	for _, name := range c.clients {
		if _, err := find(name); err != nil {
			return err
		}
	}
	if names != "" {
		c.faults = strings.Split(names, ",")
	}
	for _, name := range c.faults {
		if !slices.ContainsFunc(faults(), func(f *fault) bool { return f.name == name }) {
			return fmt.Errorf("unknown fault %q", name)
		}
	}
	return nil
}

// run plays the rounds, or reads their rows, and prints the tables.
func run(c config, out, progress io.Writer) error {
	r := newResults()
	if c.print != "" {
		if err := r.load(c.print); err != nil {
			return err
		}
	} else {
		if c.json != "" {
			if err := r.load(c.json); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		r.replace(c.playAll(progress))
		r.Machine, r.Load = report.Machine(), report.Load()
		endSpares()
		if c.json != "" {
			if err := r.save(c.json); err != nil {
				return err
			}
		}
	}
	if _, err := io.WriteString(out, r.report()); err != nil {
		return err
	}
	if c.docs != "" {
		if err := r.document(c.docs); err != nil {
			return err
		}
	}
	switch {
	case c.print != "":
		return nil
	case c.quick:
		return errors.Join(r.failure(), r.broken())
	}
	return r.failure()
}

// job is one round that is to be played.
type job struct {
	candidate *candidate
	fault     *fault
	number    int
}

// jobs returns the rounds, in the order in which they are played: all clients take turns, so that a busy
// minute of the machine meets all of them.
func (c config) jobs() (beside, alone []job) {
	for number := range c.rounds {
		for _, f := range faults() {
			if c.faults != nil && !slices.Contains(c.faults, f.name) {
				continue
			}
			for _, name := range c.clients {
				k, err := find(name)
				if err != nil || k.skips(f) != "" || f.name == "waiters" && number >= (c.rounds+3)/4 {
					continue
				}
				j := job{k, f, number}
				if f.name == "waiters" {
					alone = append(alone, j)
				} else {
					beside = append(beside, j)
				}
			}
		}
	}
	return beside, alone
}

// playAll plays the rounds side by side, because most of them wait for leases. It plays the rounds that
// measure the processor one after another.
func (c config) playAll(progress io.Writer) (rows []row) {
	beside, alone := c.jobs()
	queue := make(chan job)
	var all sync.WaitGroup
	var mu sync.Mutex
	total, began := len(beside)+len(alone), time.Now()
	add := func(r row) {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, r)
		if r.Failed != "" {
			fmt.Fprintf(progress, "%s, %s: %s\n", r.Client, r.Fault, r.Failed)
		}
		if len(rows)%100 == 0 {
			fmt.Fprintf(progress, "%d of %d rounds after %v\n", len(rows), total, time.Since(began).Round(time.Second))
		}
	}
	for range c.parallel {
		all.Go(func() {
			for j := range queue {
				add(play(j.candidate, j.fault, j.number, c.seed))
			}
		})
	}
	for _, j := range beside {
		if time.Since(began) < c.most {
			queue <- j
		}
	}
	close(queue)
	all.Wait()
	for _, j := range alone {
		add(play(j.candidate, j.fault, j.number, c.seed))
	}
	return rows
}

// skips returns why a client has no round of a fault, or "".
func (c *candidate) skips(f *fault) string {
	switch {
	case f.renews && !c.renews:
		return "it renews nothing"
	case f.kind != "" && !strings.Contains(c.store, f.kind):
		return "its store keeps the lock on disk"
	default:
		return c.without[f.name]
	}
}

// context returns the context of calls of the servers.
func (*round) context() context.Context { return context.Background() }
