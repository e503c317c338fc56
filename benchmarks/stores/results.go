// The results of a run, and the file that holds them.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// results are the results of one run, or of several joined runs.
type results struct {
	Machine    string
	Go         string
	LoadBefore string  // load averages of 1, 5 and 15 minutes
	Window     float64 // seconds
	TTL        float64 // seconds
	Stores     map[string]*figures
}

func newResults(c config) *results {
	return &results{
		Machine: bench.Machine(), Go: runtime.Version(), LoadBefore: bench.Load(),
		Window: c.window.Seconds(), TTL: c.ttl.Seconds(), Stores: map[string]*figures{},
	}
}

// measure measures the selected stores, one after another. It goes on after an error and returns all
// errors. It leaves out stores whose server is not installed.
func (r *results) measure(ctx context.Context, c config, progress io.Writer) error {
	var failed error
	for _, candidate := range candidates() {
		if ctx.Err() != nil {
			return errors.Join(failed, errors.New("interrupted"))
		}
		if !c.selected(candidate.name) {
			continue
		}
		err := r.measureStore(ctx, c, candidate, progress)
		if errors.Is(err, errMissing) {
			fmt.Fprintf(progress, "%s is LEFT OUT: %v\n", candidate.name, err)
		} else if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", candidate.name, err))
			fmt.Fprintf(progress, "%s failed: %v\n", candidate.name, err)
		}
	}
	return failed
}

// measureStore measures one store on a new server.
func (r *results) measureStore(ctx context.Context, c config, candidate candidate, progress io.Writer) error {
	s, err := candidate.start(ctx)
	if err != nil {
		return err
	}
	defer s.stop()
	if c.load {
		fmt.Fprintln(progress, candidate.name)
		f := r.Stores[candidate.name]
		if f == nil {
			f = &figures{Server: s.version, Durable: s.durable, Renewals: map[int]renewals{}}
			r.Stores[candidate.name] = f
		}
		f.Loads, err = measureLoads(ctx, s, progress)
		return err
	}
	f := &figures{Server: s.version, Durable: s.durable, Renewals: map[int]renewals{}}
	r.Stores[candidate.name] = f
	step := func(what string, measure func() error) error {
		fmt.Fprintf(progress, "%s, %s ...", candidate.name, what)
		began := time.Now()
		err := measure()
		fmt.Fprintf(progress, " %v\n", time.Since(began).Round(100*time.Millisecond))
		return err
	}
	err = step("lock and unlock", func() (err error) {
		f.Pair, err = measurePair(ctx, s, c.window)
		return err
	})
	if err != nil {
		return err
	}
	err = step("hand-over", func() (err error) {
		f.HandOver, err = measureHandOver(ctx, s, c.window)
		return err
	})
	if err != nil {
		return err
	}
	for _, n := range c.leases {
		if candidate.limit > 0 && n > candidate.limit {
			continue
		}
		err := step(fmt.Sprintf("%d leases", n), func() (err error) {
			f.Renewals[n], err = measureRenewals(ctx, s, n, c)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// load reads results from a file.
func (r *results) load(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// save writes the results to a file. It keeps the figures of the file for stores and numbers of leases
// that this run did not measure.
func (r *results) save(path string) error {
	var before results
	if err := before.load(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, f := range before.Stores {
		now := r.Stores[name]
		if now == nil {
			r.Stores[name] = f
			continue
		}
		if now.Loads == nil {
			now.Loads = f.Loads
		}
		for n, renewals := range f.Renewals {
			if _, measured := now.Renewals[n]; !measured {
				now.Renewals[n] = renewals
			}
		}
	}
	return bench.Save(path, r)
}
