// A child: it holds the locks of one candidate, and measures itself.

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// task tells a child what to do.
type task struct {
	Candidate string
	Addrs     []string // of a single server, or of the masters of a cluster
	Leases    int
	TTL       time.Duration
	Saturate  bool   // renew without pause instead of once in a period
	Profile   string // folder for a CPU profile, or ""
}

// period is the time between two renewals of a lock.
func (t task) period() time.Duration { return t.TTL / 3 }

// The requests that a child serves after it has acquired the locks.
const (
	beginRequest = "begin"
	endRequest   = "end"
)

// childResult is what a child measured between begin and end.
type childResult struct {
	CPU        time.Duration
	Goroutines int // highest number of goroutines of the client
	LateP50    time.Duration
	LateP99    time.Duration

	// At the end.
	RSS         int64
	RSSPerLease float64 // bytes by which all locks increased the RSS, per lock
	Heap        float64 // bytes per lock
	Stack       float64 // bytes per lock
	Lost        int
}

// worker holds the locks of a child.
type worker struct {
	task
	client    client
	rss       int64  // before the first lock
	first     memory // with the first tenth of the locks
	remaining int    // locks acquired after that

	cpu         time.Duration
	stats       clientStats
	goroutines  goroutineWatch
	stopProfile func() error // nil if there is no CPU profile
}

// benchGoroutines is the number of goroutines of the benchmark itself: the main one
// and the one that counts.
const benchGoroutines = 2

// memory is the memory that the process uses.
type memory struct{ heap, stack uint64 }

func readMemory() memory {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse}
}

// child serves the requests of the parent.
func child(in io.Reader, out io.Writer) error {
	logging.Disable() // go-redis prints each failed dial
	return bench.Serve(in, out, func(t task) (func(string) (childResult, error), error) {
		w, err := acquireAll(t)
		return w.handle, err
	})
}

// acquireAll acquires the locks of a task. It acquires the first tenth before it
// reads the memory, so that what a client allocates once does not count.
func acquireAll(t task) (*worker, error) {
	c, err := findCandidate(t.Candidate)
	if err != nil {
		return nil, err
	}
	w := &worker{task: t, rss: bench.ProcessRSS()}
	if w.client, err = c.open(t); err != nil {
		return nil, err
	}
	tenth := t.Leases / 10
	w.remaining = t.Leases - tenth
	ctx := context.Background()
	if err := lockRange(ctx, w.client, 0, tenth); err != nil {
		return nil, err
	}
	w.first = readMemory()
	if err := lockRange(ctx, w.client, tenth, t.Leases); err != nil {
		return nil, err
	}
	w.client.ready()
	return w, nil
}

func (w *worker) handle(request string) (childResult, error) {
	switch request {
	case beginRequest:
		return childResult{}, w.begin()
	case endRequest:
		return w.end()
	}
	return childResult{}, fmt.Errorf("unknown request %q", request)
}

func (w *worker) begin() (err error) {
	if w.Profile != "" {
		if w.stopProfile, err = bench.Profile(filepath.Join(w.Profile, w.Candidate+".pprof")); err != nil {
			return err
		}
	}
	w.stats = w.client.stats()
	w.goroutines.start()
	w.cpu, err = bench.ProcessCPU()
	return err
}

func (w *worker) end() (childResult, error) {
	cpu, err := bench.ProcessCPU()
	if err != nil {
		return childResult{}, err
	}
	goroutines := w.goroutines.stop() - benchGoroutines
	if w.stopProfile != nil {
		if err := w.stopProfile(); err != nil {
			return childResult{}, err
		}
	}
	s := w.client.stats()
	late := s.late.Since(w.stats.late)
	r := childResult{
		CPU: cpu - w.cpu, Goroutines: goroutines,
		LateP50: late.Quantile(0.5), LateP99: late.Quantile(0.99),
		RSS: bench.ProcessRSS(), Lost: s.lost,
	}
	r.RSSPerLease = float64(r.RSS-w.rss) / float64(w.Leases)
	m := readMemory()
	r.Heap = float64(int64(m.heap-w.first.heap)) / float64(w.remaining)
	r.Stack = float64(int64(m.stack-w.first.stack)) / float64(w.remaining)
	runtime.KeepAlive(w.client)
	return r, nil
}

// goroutineWatch records the highest number of goroutines. Its interval is no
// divisor of the periods of the timers.
type goroutineWatch struct {
	highest atomic.Int64
	done    chan struct{}
}

func (g *goroutineWatch) start() {
	const interval = 97 * time.Millisecond
	done := make(chan struct{})
	g.done = done
	g.highest.Store(0)
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			g.highest.Store(max(g.highest.Load(), int64(runtime.NumGoroutine())))
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	}()
}

func (g *goroutineWatch) stop() int {
	close(g.done)
	return int(g.highest.Load())
}
