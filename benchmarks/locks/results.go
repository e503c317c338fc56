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

// results are those of a run, or of several that were put together. The keys are
// numbers of goroutines or clients, and names of contestants.
type results struct {
	Machine   string
	Redis     string
	Go        string
	Window    float64 // seconds
	Pairs     map[int]map[string]pairs
	HandOvers map[int]map[string]handOver
	Batches   map[string]batches
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
	r := &results{Machine: bench.Machine(), Go: runtime.Version(), Window: window.Seconds()}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			r.Redis = version
		}
	}
	return r, nil
}

// measure measures all that is wanted, one after another. What cannot be measured
// does not keep the rest from being; the error tells of it.
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
		case workPairs:
			r.measurePairs(c, step)
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

type stepper func(what string, f func() error)

func (r *results) measurePairs(c config, step stepper) {
	r.Pairs = map[int]map[string]pairs{}
	for _, n := range c.numbers(1, 8, 64) {
		r.Pairs[n] = map[string]pairs{}
		for _, contestant := range contestants() {
			o := order{Work: workPairs, Contestant: contestant.name, Goroutines: n, Window: c.window, Profile: c.profile}
			step(fmt.Sprintf("pairs, %d goroutines, %s", n, o.Contestant), func() (err error) {
				r.Pairs[n][o.Contestant], err = measurePairs(o)
				return err
			})
		}
	}
}

func (r *results) measureHandOvers(c config, step stepper) {
	r.HandOvers = map[int]map[string]handOver{}
	for _, n := range c.numbers(2, 8, 64) {
		r.HandOvers[n] = map[string]handOver{}
		for _, contestant := range contestants() {
			o := order{Work: workHandOver, Contestant: contestant.name, Goroutines: n, Window: c.window, Profile: c.profile}
			step(fmt.Sprintf("hand-over, %d clients, %s", n, o.Contestant), func() (err error) {
				r.HandOvers[n][o.Contestant], err = measureHandOver(o)
				return err
			})
		}
	}
}

func (r *results) measureBatches(ctx context.Context, c config, step stepper) {
	r.Batches = map[string]batches{}
	window := c.window / time.Duration(len(memberCounts))
	for _, way := range ways() {
		o := order{Work: workBatches, Contestant: way.name, Window: window, Profile: c.profile}
		step("batches, "+way.name, func() (err error) {
			r.Batches[way.name], err = measureBatches(o)
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

// save writes the results to a file, with what that has already and was not measured
// anew.
func (r *results) save(path string) error {
	var before results
	if err := before.load(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.Pairs == nil {
		r.Pairs = before.Pairs
	}
	if r.HandOvers == nil {
		r.HandOvers = before.HandOvers
	}
	if r.Batches == nil {
		r.Batches = before.Batches
	}
	return bench.Save(path, r)
}
