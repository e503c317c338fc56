package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// Works are what a child can do.
const (
	workPairs    = "pairs"
	workHandOver = "handover"
	workBatches  = "batches"
)

// order tells a child what to do. It is the first line that it reads; it connects,
// and says so by an empty answer. At the next line it does it, and answers.
type order struct {
	Work       string
	Contestant string
	Addr       string
	Goroutines int // that lock; each is a client of its own if it is a hand-over
	Window     time.Duration
	Profile    string // folder for CPU profiles; "" is none
}

// answer is what a child says.
type answer struct {
	usage
	Count    int // pairs, hand-overs
	P50, P99 time.Duration

	Ping, PingP99 time.Duration
	Jain          float64
	Batches       batches `json:",omitempty"`
}

// measure runs a contestant in a process of its own on a server of its own.
func measure(o order) (answer, error) {
	server, err := testredis.Launch()
	if err != nil {
		return answer{}, err
	}
	defer server.Close()
	o.Addr = server.Addr()
	kid, err := bench.Start[answer](o)
	if err != nil {
		return answer{}, err
	}
	defer kid.Stop()
	return kid.Say("begin")
}

// child does what it is told until its input ends, which it does with the parent.
func child(in io.Reader, out io.Writer) error {
	logging.Disable() // of go-redis
	return bench.Serve(in, out, func(o order) (func(string) (answer, error), error) {
		clients, err := connect(o)
		return func(string) (answer, error) { return o.do(context.Background(), clients) }, err
	})
}

// connect makes the clients.
func connect(o order) ([]client, error) {
	contestant, err := find(o.Contestant)
	if err != nil {
		return nil, err
	}
	clients := make([]client, 1)
	if o.Work == workHandOver {
		clients = make([]client, o.Goroutines)
	}
	for i := range clients {
		if clients[i], err = contestant.open(o.Addr); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

func (o order) do(ctx context.Context, clients []client) (answer, error) {
	switch o.Work {
	case workHandOver:
		return runHandOver(ctx, clients, o)
	case workBatches:
		return runBatches(ctx, clients[0], o)
	default:
		return runPairs(ctx, clients[0], o)
	}
}

// metered runs f, returns what that used, and writes a CPU profile if one is wanted.
func (o order) metered(ctx context.Context, f func() error) (u usage, err error) {
	m, err := newMeter(o)
	if err != nil {
		return u, err
	}
	if o.Profile != "" {
		end, err := bench.Profile(filepath.Join(o.Profile, fmt.Sprint(o.Contestant, "-", o.Work, "-", o.Goroutines, ".pprof")))
		if err != nil {
			return u, err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	if err := m.begin(ctx); err != nil {
		return u, err
	}
	if err := f(); err != nil {
		return u, err
	}
	return m.end(ctx)
}
