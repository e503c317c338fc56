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

// order tells a child what to do. It is the first line that it reads. After that
// it is told to begin and to end, and answers each with a line.
type order struct {
	Contestant string
	Addrs      []string // of a single server, or of the masters of a cluster
	Leases     int
	TTL        time.Duration
	FlatOut    bool   // renew as fast as possible, not once in a period
	Profile    string // folder for a CPU profile of the time measured; "" is none
}

// period is the time from one renewal of a lock to the next.
func (o order) period() time.Duration { return o.TTL / 3 }

// The words that a child is told.
const (
	begin = "begin"
	end   = "end"
)

// answer is what a child says: after acquiring, and when told to begin or end.
type answer struct {
	// After end, of the time since begin.
	CPU        time.Duration
	Goroutines int // the most that were seen, of the client
	LateP50    time.Duration
	LateP99    time.Duration

	// At the end.
	RSS   int64
	Heap  float64 // bytes per lock
	Stack float64 // bytes per lock
	Lost  int
}

// held is a contestant at work in this process.
type held struct {
	order
	client client
	first  memory // with the first tenth of the locks
	locks  int    // got after that

	cpu        time.Duration
	tally      tally
	goroutines highWater
	profiled   func() error // ends the CPU profile; nil: there is none
}

// goroutinesHere are those of this file: the main one and the one that counts.
const goroutinesHere = 2

// memory is what the process has in use.
type memory struct{ heap, stack uint64 }

func readMemory() memory {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse}
}

// child does what it is told until its input ends, which it does with the parent.
func child(in io.Reader, out io.Writer) error {
	logging.Disable() // of go-redis, which prints each failed dial of a server that was killed
	return bench.Serve(in, out, func(o order) (func(string) (answer, error), error) {
		h, err := acquire(o)
		return h.do, err
	})
}

// acquire gets the locks. The first tenth is got before memory is measured, so
// that what a client needs once is not counted.
func acquire(o order) (*held, error) {
	c, err := find(o.Contestant)
	if err != nil {
		return nil, err
	}
	h := &held{order: o}
	if h.client, err = c.open(o); err != nil {
		return nil, err
	}
	tenth := o.Leases / 10
	h.locks = o.Leases - tenth
	ctx := context.Background()
	if err := lockAll(ctx, h.client, 0, tenth); err != nil {
		return nil, err
	}
	h.first = readMemory()
	if err := lockAll(ctx, h.client, tenth, o.Leases); err != nil {
		return nil, err
	}
	h.client.allHeld()
	return h, nil
}

func (h *held) do(word string) (answer, error) {
	switch word {
	case begin:
		return answer{}, h.begin()
	case end:
		return h.end()
	}
	return answer{}, fmt.Errorf("what is %q?", word)
}

func (h *held) begin() (err error) {
	if h.Profile != "" {
		if h.profiled, err = bench.Profile(filepath.Join(h.Profile, h.Contestant+".pprof")); err != nil {
			return err
		}
	}
	h.tally = h.client.tell()
	h.goroutines.watch()
	h.cpu, err = bench.ProcessCPU()
	return err
}

func (h *held) end() (answer, error) {
	cpu, err := bench.ProcessCPU()
	if err != nil {
		return answer{}, err
	}
	goroutines := h.goroutines.stop() - goroutinesHere
	if h.profiled != nil {
		if err := h.profiled(); err != nil {
			return answer{}, err
		}
	}
	t := h.client.tell()
	late := t.late.Since(h.tally.late)
	a := answer{
		CPU: cpu - h.cpu, Goroutines: goroutines,
		LateP50: late.Quantile(0.5), LateP99: late.Quantile(0.99),
		RSS: bench.ProcessRSS(), Lost: t.lost,
	}
	m := readMemory()
	a.Heap = float64(int64(m.heap-h.first.heap)) / float64(h.locks)
	a.Stack = float64(int64(m.stack-h.first.stack)) / float64(h.locks)
	runtime.KeepAlive(h.client)
	return a, nil
}

// highWater watches the number of goroutines, at intervals that are no divisor of
// those at which timers fire.
type highWater struct {
	most atomic.Int64
	quit chan struct{}
}

func (w *highWater) watch() {
	const interval = 97 * time.Millisecond
	w.quit = make(chan struct{})
	w.most.Store(0)
	go func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			w.most.Store(max(w.most.Load(), int64(runtime.NumGoroutine())))
			select {
			case <-w.quit:
				return
			case <-ticker.C:
			}
		}
	}()
}

func (w *highWater) stop() int {
	close(w.quit)
	return int(w.most.Load())
}
