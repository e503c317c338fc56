// Command route counts the functions, files and packages of this project that one lock, and one renewal, pass through.
// It must be built with coverage in mode atomic; make route does that.
//
// The client of each row is new, and the server knows none of its scripts: connections and the first load count. What
// making the client runs too is left out, and of the renewal what holding a lock runs too. Each row is measured several
// times, and what did not run each time, such as a tick of the timer engine, is left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

const (
	key    = "route"
	ttl    = 3 * time.Second        // a renewal each second
	settle = 200 * time.Millisecond // for the timer engine to start
	rounds = 3
)

func main() {
	list := flag.Bool("functions", false, "list the functions, too")
	flag.Parse()
	if err := run(*list); err != nil {
		fmt.Fprintln(os.Stderr, "route:", err)
		os.Exit(1)
	}
}

func run(list bool) error {
	server, err := testredis.Launch()
	if err != nil {
		return err
	}
	defer server.Close()
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	var lists strings.Builder
	fmt.Fprintln(w, "work\tfunctions\tfiles\tpackages")
	for _, row := range []struct {
		name    string
		holding bool // the lock is held before
		work    work
	}{
		{"TryLock and Unlock", false, func(ctx context.Context, m *lock.Mutex, _ *redis.Client) error { return pair(ctx, m.TryLock) }},
		{"Lock and Unlock of a free lock", false, func(ctx context.Context, m *lock.Mutex, _ *redis.Client) error { return pair(ctx, m.Lock) }},
		{"one renewal, beyond holding", true, func(ctx context.Context, _ *lock.Mutex, rdb *redis.Client) error { return awaitRenewals(ctx, rdb) }},
	} {
		var ran map[string]bool
		for range rounds {
			again, err := measure(server.Addr(), row.holding, row.work)
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			if ran == nil {
				ran = again
			}
			maps.DeleteFunc(ran, func(f string, _ bool) bool { return !again[f] })
		}
		files, packages := map[string]bool{}, map[string]bool{}
		for function := range ran {
			file, _, _ := strings.Cut(function, ":")
			files[file], packages[path.Dir(file)] = true, true
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", row.name, len(ran), len(files), len(packages))
		if list {
			fmt.Fprintf(&lists, "\n%s:\n%s\n", row.name, strings.Join(slices.Sorted(maps.Keys(ran)), "\n"))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Print(lists.String())
	return err
}

// work is what a row counts. The client of Redis is for questions that do not count.
type work func(context.Context, *lock.Mutex, *redis.Client) error

// measure returns the functions that the work runs and that what comes before it does not run.
func measure(addr string, holding bool, do work) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	if err := rdb.ScriptFlush(ctx).Err(); err != nil {
		return nil, err
	}
	if err := coverage.ClearCounters(); err != nil {
		return nil, err
	}
	store, err := redisstore.New(rdb, nil)
	if err != nil {
		return nil, err
	}
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: ttl}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close(context.Background()) }()
	m := client.Mutex(key)
	if holding {
		held, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { _ = held.Unlock(context.Background()) }()
		time.Sleep(settle)
	}
	before, err := functions()
	if err != nil {
		return nil, err
	}
	if err := coverage.ClearCounters(); err != nil {
		return nil, err
	}
	if err := do(ctx, m, rdb); err != nil {
		return nil, err
	}
	after, err := functions()
	maps.DeleteFunc(after, func(f string, _ bool) bool { return before[f] })
	return after, err
}

// pair takes the lock and releases it.
func pair(ctx context.Context, take func(context.Context) (*lock.Held, error)) error {
	held, err := take(ctx)
	if err != nil {
		return err
	}
	return held.Unlock(ctx)
}

// awaitRenewals waits for two renewals, so that the client has the answer of the first one. It asks the server only.
func awaitRenewals(ctx context.Context, rdb *redis.Client) error {
	last := time.Duration(0)
	for renewals := -1; renewals < 2; { // the first look is none
		left, err := rdb.PTTL(ctx, "lw:{"+key+"}").Result()
		switch {
		case err != nil:
			return err
		case left < 0:
			return errors.New("the lock is not held")
		}
		if left > last {
			renewals++
		}
		last = left
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// foreign matches the files that measure.
var foreign = regexp.MustCompile(`/(benchmarks|internal/test\w+)/`)

// functions returns the functions that ran since the counters were cleared, as file, line and name.
func functions() (map[string]bool, error) {
	dir, err := os.MkdirTemp("", "route-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir)); err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool covdata: %w", err)
	}
	ran := map[string]bool{}
	for line := range strings.Lines(string(out)) { // github.com/…/lock/mutex.go:12:	*Mutex.Lock	83.3%
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[2] != "0.0%" && strings.Contains(fields[0], ".go:") && !foreign.MatchString(fields[0]) {
			ran[fields[0]+fields[1]] = true
		}
	}
	return ran, nil
}
