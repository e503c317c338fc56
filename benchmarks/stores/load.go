// The load of locks that are held, and of calls that wait, while nothing changes.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// load is the load of one client with n locks, or of one whose n calls wait for as many locks of another.
type load struct {
	Waiting   bool
	N         int
	RoundTrip time.Duration // that a proxy adds
	Packets   float64       // from the client to the server, per second; 0 without a server
	Bytes     float64       // of memory of the client, for each
	Failed    string        // the reason, if there are no figures
}

// The cells of the tables.
var (
	loadNumbers    = []int{10, 100, 1000, 10_000}
	loadRoundTrips = []time.Duration{0, time.Millisecond}
)

// measureLoads measures a store that has just been started.
func measureLoads(ctx context.Context, s *server, progress io.Writer) (all []load, err error) {
	for _, waiting := range []bool{false, true} {
		for _, roundTrip := range loadRoundTrips {
			if s.addr == "" && roundTrip > 0 {
				continue
			}
			for _, n := range loadNumbers {
				l := load{Waiting: waiting, N: n, RoundTrip: roundTrip}
				if err := l.measure(ctx, s); err != nil {
					if ctx.Err() != nil {
						return all, errors.New("interrupted")
					}
					l.Failed = err.Error()
				}
				fmt.Fprintf(progress, "  %+v\n", l)
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// measure sets the figures.
func (l *load) measure(ctx context.Context, s *server) error {
	addr, packets := s.addr, func() int64 { return 0 }
	if addr != "" {
		link, err := testproxy.New(s.network, addr)
		if err != nil {
			return err
		}
		defer link.Close()
		link.DelayAnswers(l.RoundTrip)
		addr, packets = link.Addr(), link.Packets
	}
	prefix := fmt.Sprintf("load:%v:%d:%v:", l.Waiting, l.N, l.RoundTrip)
	if l.Waiting {
		end, err := hold(ctx, s, s.addr, prefix, l.N)
		if err != nil {
			return err
		}
		defer func() { _ = end() }() // how it ends is not measured
	}
	before := memory()
	start := hold
	if l.Waiting {
		start = wait
	}
	end, err := start(ctx, s, addr, prefix, l.N)
	if err != nil {
		return err
	}
	defer func() { _ = end() }()
	if err := sleep(ctx, loadTTL/3); err != nil { // the first renewals come early
		return err
	}
	sent, began := packets(), time.Now()
	if err := sleep(ctx, loadWindow); err != nil {
		return err
	}
	l.Packets = float64(packets()-sent) / time.Since(began).Seconds()
	l.Bytes = max(0, memory()-before) / float64(l.N)
	return nil
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
func (r *results) loadReport() string {
	reasons := map[string]bool{}
	held, waiting := r.loadTable(false, reasons), r.loadTable(true, reasons)
	if len(held) == 1 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWhile nothing changes: packets per second from one client to its server, without delay / with %v added to each round trip, "+
		"and the memory of the client for each of the %d. TTL %v; a proxy counts for %v.\n\n%s\n%s\n",
		loadRoundTrips[1], loadNumbers[len(loadNumbers)-1], loadTTL, loadWindow, held, waiting)
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "\n%s.\n", reason)
	}
	return b.String()
}

func (r *results) loadTable(waiting bool, reasons map[string]bool) bench.Table {
	what := "locks held"
	if waiting {
		what = "waiters"
	}
	t := bench.Table{{"store"}}
	for _, n := range loadNumbers {
		t[0] = append(t[0], fmt.Sprintf("%d %s", n, what))
	}
	t[0] = append(t[0], "kB each")
	for _, name := range r.measured() {
		row, memory := []string{name}, ""
		for _, n := range loadNumbers {
			var cells []string
			for _, l := range r.Stores[name].Loads {
				switch {
				case l.Waiting != waiting || l.N != n:
				case l.Failed != "":
					cells = append(cells, "failed")
					reasons[fmt.Sprintf("%s, %d %s: %s", name, n, what, l.Failed)] = true
				default:
					memory = number(l.Bytes / 1000)
					cells = append(cells, number(l.Packets))
				}
			}
			row = append(row, strings.Join(cells, " / "))
		}
		if strings.Join(row[1:], "") != "" {
			t = append(t, append(row, memory))
		}
	}
	return t
}
