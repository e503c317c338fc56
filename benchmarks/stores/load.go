// The load of locks that are held, and of calls that wait, while nothing changes.

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock"
)

const (
	loadTTL    = 30 * time.Second
	loadWindow = loadTTL / 3     // each lease is renewed once in that time, and each place extended three times
	loadStart  = 2 * time.Minute // the longest time to acquire the locks, or to enter the queues
)

// load is the work of one client with n locks, or of one whose n calls wait for as many locks of another. Its figures are
// the packets from the client to the server per second, and the bytes of memory of the client for each.
type load struct {
	what string // held or waiting
	n    int
}

// The cells of the tables.
const held, waiting = "held", "waiting"

var loadNumbers = []int{10, 100, 1000, 10_000}

func (l load) name() string { return fmt.Sprintf("load %s %d", l.what, l.n) }

// loads returns the loads of a store.
func loads() []load {
	var all []load
	for _, what := range []string{held, waiting} {
		for _, n := range loadNumbers {
			all = append(all, load{what, n})
		}
	}
	return all
}

// measure measures a load. A failure, such as that of a server with too little memory, is an outcome.
func (l load) measure(ctx context.Context, s *server) (bench.Values, error) {
	v, err := l.figures(ctx, s)
	if err != nil {
		return nil, bench.OutcomeError(err.Error())
	}
	return v, nil
}

func (l load) figures(ctx context.Context, s *server) (bench.Values, error) {
	addr, packets := s.addr, func() int64 { return 0 }
	if addr != "" {
		link, err := testproxy.New(s.network, addr)
		if err != nil {
			return nil, err
		}
		defer link.Close()
		addr, packets = link.Addr(), link.Packets
	}
	start := hold
	if l.what == waiting {
		start = wait
		end, err := hold(ctx, s, s.addr, l.name(), l.n)
		if err != nil {
			return nil, err
		}
		defer func() { _ = end() }() // how it ends is not measured
	}
	before := memory()
	end, err := start(ctx, s, addr, l.name(), l.n)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	if err := bench.Sleep(ctx, loadTTL/3); err != nil { // the first renewals come early
		return nil, err
	}
	sent, began := packets(), time.Now()
	if err := bench.Sleep(ctx, loadWindow); err != nil {
		return nil, err
	}
	return bench.Values{
		"packets": float64(packets()-sent) / time.Since(began).Seconds(),
		"bytes":   max(0, memory()-before) / float64(l.n),
	}, nil
}

// memory returns how much memory this process uses.
func memory() float64 {
	runtime.GC()
	runtime.GC() // what finalizers have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// hold acquires n locks of a new client, and returns the function that ends them.
func hold(ctx context.Context, s *server, addr, prefix string, n int) (end func() error, err error) {
	client, closeClient, err := newClientAt(s, addr, loadTTL, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, loadStart)
	defer cancel()
	held, err := acquire(ctx, client, prefix, n)
	if err != nil {
		return nil, errors.Join(err, closeClient())
	}
	return func() error {
		runtime.KeepAlive(held)
		return closeClient()
	}, nil
}

// wait starts n calls of a new client that wait for the locks of another, and returns when all of them do.
func wait(ctx context.Context, s *server, addr, prefix string, n int) (end func() error, err error) {
	entering := make(chan struct{}, acquirers)
	client, closeClient, err := newClientAt(s, addr, loadTTL, &lock.Hooks{Waiting: func(context.Context, lock.HookInfo) { <-entering }})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timeout := time.AfterFunc(loadStart, func() { cancel(context.DeadlineExceeded) })
	defer timeout.Stop()
	var waits sync.WaitGroup
	end = func() error {
		cancel(context.Canceled)
		waits.Wait()
		return closeClient()
	}
	for i := range n + acquirers { // the last ones only wait until all others have entered
		select {
		case entering <- struct{}{}:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), end())
		}
		if i < n {
			waits.Go(func() {
				if _, err := client.Mutex(prefix + strconv.Itoa(i)).Lock(ctx); err != nil {
					cancel(err)
				}
			})
		}
	}
	return end, nil
}

// loadReport returns the tables of the loads, and why cells are empty.
func loadReport(r *bench.Results) string {
	reasons := map[string]bool{}
	ofHeld, ofWaiting := loadTable(r, held, reasons), loadTable(r, waiting, reasons)
	if len(ofHeld) == 1 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWhile nothing changes: packets per second from one client to its server, "+
		"and the memory of the client for each of the %d. TTL %v; a proxy counts for %v.\n\n%s\n%s\n",
		slices.Max(loadNumbers), loadTTL, loadWindow, ofHeld, ofWaiting)
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "%s.\n\n", reason)
	}
	return b.String()
}

func loadTable(r *bench.Results, what string, reasons map[string]bool) bench.Table {
	t := bench.Table{{"store"}}
	for _, n := range loadNumbers {
		t[0] = append(t[0], fmt.Sprintf("%d %s", n, what))
	}
	t[0] = append(t[0], "kB each")
	for _, name := range names() {
		var cells []string
		kB := ""
		for _, n := range loadNumbers {
			l := load{what, n}.name()
			if bytes, ok := r.Figure(l, name, "bytes"); ok {
				kB = bench.Number(bytes / 1000)
			}
			cell := r.Cell(l, name, "packets")
			if reason := r.Failure(l, name); reason != "" {
				cell = "failed"
				reasons[fmt.Sprintf("%s, %d %s: %s", name, n, what, reason)] = true
			}
			cells = append(cells, cell)
		}
		t.Add([]string{name}, append(cells, kB)...)
	}
	return t
}
