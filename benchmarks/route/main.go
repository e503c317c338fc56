// Command route counts the functions, files and packages of this project that one lock, and one renewal, pass through,
// and the hops of the key from the call to the socket. It must be built with coverage in mode atomic; make route does that.
//
// The client of each row is new, and the server knows none of its scripts: connections and the first load count. What
// making the client runs too is left out, and of the renewal what holding a lock runs too. Each row is measured several
// times, and what did not run each time, such as a tick of the timer engine, is left out. Two kinds of functions
// do not count: those of up to three lines, and those of goroutines that merely run meanwhile. A hop is a
// function of this project on the stack of the goroutine that writes to the socket.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/coverage"
	"slices"
	"strings"
	"sync"
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
	fmt.Fprintln(w, "work\tfunctions\tfiles\tpackages\thops")
	for _, row := range []struct {
		name    string
		calls   []string // with which the ways to the socket begin
		holding bool     // the lock is held before
		work    work
	}{
		{"TryLock and Unlock", []string{"lock.(*Mutex).TryLock", "lock.(*Held).Unlock"}, false, func(ctx context.Context, m *lock.Mutex, _ *redis.Client) error { return pair(ctx, m.TryLock) }},
		{"Lock and Unlock of a free lock", []string{"lock.(*Mutex).Lock", "lock.(*Held).Unlock"}, false, func(ctx context.Context, m *lock.Mutex, _ *redis.Client) error { return pair(ctx, m.Lock) }},
		{"one renewal, beyond holding", []string{"renewal.(*Watchdog[...]).runWorker"}, true, func(ctx context.Context, _ *lock.Mutex, rdb *redis.Client) error { return awaitRenewals(ctx, rdb) }},
	} {
		var ran map[string]bool
		for range rounds {
			again, err := measure(redis.NewClient(&redis.Options{Addr: server.Addr()}), row.holding, row.work)
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			if ran == nil {
				ran = again
			}
			maps.DeleteFunc(ran, func(f string, _ bool) bool { return !again[f] })
		}
		if err := dropShort(ran); err != nil {
			return err
		}
		files, packages := map[string]bool{}, map[string]bool{}
		for function := range ran {
			file, _, _ := strings.Cut(function, ":")
			files[file], packages[path.Dir(file)] = true, true
		}
		var t tracer
		if _, err := measure(redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: t.dial}), row.holding, row.work); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
		ways := t.from(row.calls)
		hops := make([]string, len(ways))
		for i, way := range ways {
			hops[i] = fmt.Sprint(len(way))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", row.name, len(ran), len(files), len(packages), strings.Join(hops, " and "))
		if list {
			fmt.Fprintf(&lists, "\n%s:\n%s\n", row.name, strings.Join(slices.Sorted(maps.Keys(ran)), "\n"))
			for _, way := range ways {
				fmt.Fprintf(&lists, "\n%s to the socket\n", strings.Join(way, "\n"))
			}
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

// measure returns the functions that the work runs and that what comes before it does not run. It closes rdb.
func measure(rdb *redis.Client, holding bool, do work) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
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

const module = "github.com/leasewheel/leasewheel/"

// foreign matches the files that measure.
var foreign = regexp.MustCompile(`/(benchmarks|internal/test\w+)/`)

// meanwhile matches the functions that only goroutines run which neither lock nor renew: the monitor of the
// watchdog with its buckets, the standing connection, periodic checks with what they look at, and the wheel's cascades
// and its check of a worker.
var meanwhile = regexp.MustCompile(`[.:](runMonitor|noteStall|interval|stepOf|compareClocks|continuePass|endOverdue|checkWaits|waitedSince|checkWorker)$` +
	`|/monitor\.go:.*(first|head)$|/standing\.go:.*[.*](stand|connect|watch|await|conn|holds)$|/periodic\.go:.*\*Check\.(run|done)$|[cC]ascade\w*$`)

// dropShort removes the functions of up to three lines, and those that run meanwhile.
func dropShort(ran map[string]bool) error {
	short := map[string]bool{}
	parsed := map[string]bool{}
	for function := range ran {
		file, _, _ := strings.Cut(function, ":")
		if parsed[file] {
			continue
		}
		parsed[file] = true
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, filepath.Join("..", filepath.FromSlash(strings.TrimPrefix(file, module))), nil, 0)
		if err != nil {
			return err
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				first := set.Position(f.Pos()).Line
				short[fmt.Sprint(file, ":", first)] = set.Position(f.End()).Line-first < 3
			}
		}
	}
	maps.DeleteFunc(ran, func(function string, _ bool) bool {
		return short[function[:strings.LastIndexByte(function, ':')]] || meanwhile.MatchString(function)
	})
	return nil
}

// inner matches the functions within other functions.
var inner = regexp.MustCompile(`\.func\d`)

// tracer records who writes to the connections that it makes.
type tracer struct {
	mu   sync.Mutex // guards ways
	ways [][]string // the functions of this project on each stack, the caller first
}

func (t *tracer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return tracedConn{c, t}, err
}

type tracedConn struct {
	net.Conn
	tracer *tracer
}

// Write implements net.Conn.
func (c tracedConn) Write(p []byte) (int, error) {
	c.tracer.note()
	return c.Conn.Write(p)
}

// note records a way to the socket.
func (t *tracer) note() {
	pcs := make([]uintptr, 200)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var way []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, module) && !inner.MatchString(f.Function) {
			way = append(way, strings.TrimPrefix(f.Function, module))
		}
	}
	slices.Reverse(way)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ways = append(t.ways, way)
}

// from returns the latest way of each call.
func (t *tracer) from(calls []string) [][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	ways := make([][]string, len(calls))
	for _, way := range t.ways {
		for i, call := range calls {
			if len(way) > 0 && way[0] == call {
				ways[i] = way
			}
		}
	}
	return ways
}

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
