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
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// results are the results of one run, or of several joined runs. The keys are numbers
// of goroutines or clients, and names of candidates.
type results struct {
	Machine     string
	Redis       string
	Go          string
	LoadBefore  string  // load averages of 1, 5 and 15 minutes
	Window      float64 // seconds
	Uncontended map[int]map[string]uncontended
	HandOvers   map[int]map[string]handOver
	Batches     map[string]batches
}

func newResults(ctx context.Context, window time.Duration) (*results, error) {
	server, err := testredis.Launch()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	r := &results{Machine: bench.Machine(), Go: runtime.Version(), LoadBefore: bench.Load(), Window: window.Seconds()}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			r.Redis = version
		}
	}
	return r, nil
}

// measure measures the selected work, one candidate after another. It goes on after an
// error and returns all errors.
func (r *results) measure(ctx context.Context, c config, progress io.Writer) error {
	var failed error
	step := func(what string, f func() error) {
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(progress, "%s ...", what)
		began := time.Now()
		if err := f(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", what, err))
			fmt.Fprintln(progress, " failed:", err)
			return
		}
		fmt.Fprintf(progress, " %v\n", time.Since(began).Round(100*time.Millisecond))
	}
	for _, work := range c.works {
		switch work {
		case workUncontended:
			r.measureUncontended(c, step)
		case workHandOver:
			r.measureHandOvers(c, step)
		case workBatches:
			r.measureBatches(ctx, c, step)
		}
	}
	if ctx.Err() != nil {
		return errors.Join(failed, errors.New("interrupted"))
	}
	return failed
}

// stepper measures one candidate and prints the progress.
type stepper func(what string, f func() error)

func (r *results) measureUncontended(c config, step stepper) {
	r.Uncontended = map[int]map[string]uncontended{}
	for _, n := range c.numbers(1, 8, 64) {
		r.Uncontended[n] = map[string]uncontended{}
		for _, candidate := range candidates() {
			t := task{Work: workUncontended, Candidate: candidate.name, Goroutines: n, Window: c.window, Profile: c.profile}
			step(fmt.Sprintf("uncontended, %d goroutines, %s", n, t.Candidate), func() (err error) {
				r.Uncontended[n][t.Candidate], err = measureUncontended(t)
				return err
			})
		}
	}
}

func (r *results) measureHandOvers(c config, step stepper) {
	r.HandOvers = map[int]map[string]handOver{}
	for _, n := range c.numbers(2, 8, 64) {
		r.HandOvers[n] = map[string]handOver{}
		for _, candidate := range candidates() {
			t := task{Work: workHandOver, Candidate: candidate.name, Goroutines: n, Window: c.window, Profile: c.profile}
			step(fmt.Sprintf("hand-over, %d clients, %s", n, t.Candidate), func() (err error) {
				r.HandOvers[n][t.Candidate], err = measureHandOver(t)
				return err
			})
		}
	}
}

func (r *results) measureBatches(ctx context.Context, c config, step stepper) {
	r.Batches = map[string]batches{}
	window := c.window / time.Duration(len(memberCounts))
	for _, candidate := range batchCandidates() {
		t := task{Work: workBatches, Candidate: candidate.name, Window: window, Profile: c.profile}
		step("batches, "+candidate.name, func() (err error) {
			r.Batches[candidate.name], err = measureBatches(t)
			return err
		})
	}
	step("batches, "+redisson, func() (err error) {
		r.Batches[redisson], err = measureRedisson(ctx, window)
		return err
	})
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

// save writes the results to a file. It keeps the figures of the file that this run did
// not measure.
func (r *results) save(path string) error {
	var before results
	if err := before.load(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.Uncontended == nil {
		r.Uncontended = before.Uncontended
	}
	if r.HandOvers == nil {
		r.HandOvers = before.HandOvers
	}
	if r.Batches == nil {
		r.Batches = before.Batches
	}
	return bench.Save(path, r)
}
