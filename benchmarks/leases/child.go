// A child: it holds the locks of one candidate, and measures itself.

package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// task is the order for a child.
type task struct {
	Candidate string
	Addrs     []string // of a single server, or of the masters of a cluster
	Leases    int
	TTL       time.Duration
}

// period is the time between two renewals of a lock.
func (t task) period() time.Duration { return t.TTL / 3 }

// The requests that a child serves after it has acquired the locks.
const (
	beginRequest = "begin"
	endRequest   = "end"
)

// worker holds the locks of a child.
type worker struct {
	task
	client    client
	rss       int64  // before the first lock
	first     memory // with the first tenth of the locks
	remaining int    // locks acquired after that

	cpu        time.Duration
	goroutines goroutineWatch
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
	return bench.Serve(in, out, func(t task) (func(string) (bench.Values, error), error) {
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
	if err := bench.Each(ctx, 0, tenth, acquirers, w.client.lock); err != nil {
		return nil, err
	}
	w.first = readMemory()
	if err := bench.Each(ctx, tenth, t.Leases, acquirers, w.client.lock); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *worker) handle(request string) (bench.Values, error) {
	switch request {
	case beginRequest:
		return nil, w.begin()
	case endRequest:
		return w.end()
	}
	return nil, fmt.Errorf("unknown request %q", request)
}

func (w *worker) begin() (err error) {
	w.goroutines.start()
	w.cpu, err = bench.ProcessCPU()
	return err
}

// end returns what the child measured since begin: seconds of processor time, MiB of RSS and bytes per lock.
func (w *worker) end() (bench.Values, error) {
	cpu, err := bench.ProcessCPU()
	if err != nil {
		return nil, err
	}
	goroutines := w.goroutines.stop() - benchGoroutines
	rss := bench.ProcessRSS()
	m := readMemory()
	runtime.KeepAlive(w.client)
	return bench.Values{
		"cpu":           (cpu - w.cpu).Seconds(),
		"goroutines":    float64(goroutines),
		"lost":          float64(w.client.lost()),
		"rss":           float64(rss) / (1 << 20),
		"rss per lease": float64(rss-w.rss) / float64(w.Leases),
		"heap":          float64(int64(m.heap-w.first.heap)) / float64(w.remaining),
		"stack":         max(0, float64(int64(m.stack-w.first.stack))/float64(w.remaining)),
	}, nil
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
