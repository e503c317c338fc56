// The flags, and the order of the rounds.

package main

import (
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
	clients, faults  []string
	rounds, parallel int
	quick, print     bool
}

// The files that the program writes, seen from its folder.
const (
	rowsFile   = "results/compare.json"
	docsFolder = "../../docs"
)

func main() {
	if name := os.Getenv(peerEnv); name != "" {
		logging.Disable() // go-redis prints each failed dial
		c, err := find(name)
		exit(err)
		exit(c.runPeer(os.Args[1:]))
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
	for _, known := range candidates() {
		c.clients = append(c.clients, known.name)
	}
	for _, known := range faults() {
		c.faults = append(c.faults, known.name)
	}
	some := func(chosen *[]string) func(string) error {
		known := *chosen
		return func(names string) error {
			*chosen = strings.Split(names, ",")
			for _, name := range *chosen {
				if !slices.Contains(known, name) {
					return fmt.Errorf("unknown %q", name)
				}
			}
			return nil
		}
	}
	f.BoolVar(&c.quick, "quick", false, "play one round with two clients, and write no files")
	f.Func("clients", "comma-separated `names` of clients (default all)", some(&c.clients))
	f.Func("faults", "comma-separated `names` of faults (default all)", some(&c.faults))
	f.IntVar(&c.rounds, "rounds", 20, "the rounds of each client and fault; 64 waiters are played a quarter of them")
	f.IntVar(&c.parallel, "parallel", 16, "how many rounds are played at a time")
	f.BoolVar(&c.print, "print", false, "play nothing; write the page of the rows in "+rowsFile)
	err := f.Parse(args)
	if c.quick {
		c.rounds, c.clients = 1, []string{ours, "redislock"}
	}
	return c, err
}

// run plays the rounds, and prints and writes the page. Rows of other clients and faults are kept.
func run(c config, out, progress io.Writer) error {
	r := &results{}
	if !c.quick {
		if err := r.load(rowsFile); err != nil {
			return err
		}
	}
	if !c.print {
		r.replace(c.playAll(progress))
		r.Machine, r.Load = report.Machine(), report.Load()
		endSpares()
	}
	if _, err := io.WriteString(out, r.report()); err != nil {
		return err
	}
	switch {
	case c.quick:
		return errors.Join(r.failure(), r.broken())
	case !c.print:
		if err := r.save(rowsFile); err != nil {
			return err
		}
	}
	return errors.Join(r.document(docsFolder), r.failure())
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
			if !slices.Contains(c.faults, f.name) {
				continue
			}
			for _, name := range c.clients {
				k, err := find(name)
				if err != nil || k.skips(f) || f.name == "waiters" && number >= (c.rounds+3)/4 {
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
				add(play(j.candidate, j.fault, j.number))
			}
		})
	}
	for _, j := range beside {
		queue <- j
	}
	close(queue)
	all.Wait()
	for _, j := range alone {
		add(play(j.candidate, j.fault, j.number))
	}
	return rows
}

// skips reports whether a client has no round of a fault.
func (c *candidate) skips(f *fault) bool {
	return f.renews && !c.renews || f.kind != "" && !strings.Contains(c.store, f.kind) || c.without == f.name
}
