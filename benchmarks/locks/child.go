// A child: it runs one task on a server of its own.

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

// The kinds of work of a child.
const (
	workUncontended = "uncontended"
	workHandOver    = "handover"
	workBatches     = "batches"
)

// task tells a child what to do. The child connects when it gets the task, and
// measures when it gets the first request.
type task struct {
	Work       string
	Candidate  string
	Addr       string
	Goroutines int // that lock; in a hand-over each has a client of its own
	Window     time.Duration
	Profile    string // folder for CPU profiles, or ""
}

// childResult is what a child measured.
type childResult struct {
	usage
	Count    int // pairs of lock and unlock, or turns
	P50, P99 time.Duration

	Ping, PingP99 time.Duration
	Jain          float64
	Batches       batches `json:",omitempty"`
}

// measure runs a task in a process of its own on a server of its own.
func measure(t task) (childResult, error) {
	server, err := testredis.Launch()
	if err != nil {
		return childResult{}, err
	}
	defer server.Close()
	t.Addr = server.Addr()
	process, err := bench.Start[childResult](t)
	if err != nil {
		return childResult{}, err
	}
	defer process.Kill()
	return process.Call("begin")
}

// child serves the requests of the parent.
func child(in io.Reader, out io.Writer) error {
	logging.Disable() // go-redis prints each failed dial
	return bench.Serve(in, out, func(t task) (func(string) (childResult, error), error) {
		clients, err := connect(t)
		return func(string) (childResult, error) { return t.run(context.Background(), clients) }, err
	})
}

// connect creates the clients of a task.
func connect(t task) ([]client, error) {
	c, err := findCandidate(t.Candidate)
	if err != nil {
		return nil, err
	}
	clients := make([]client, 1)
	if t.Work == workHandOver {
		clients = make([]client, t.Goroutines)
	}
	for i := range clients {
		if clients[i], err = c.open(t.Addr); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

func (t task) run(ctx context.Context, clients []client) (childResult, error) {
	switch t.Work {
	case workHandOver:
		return runHandOver(ctx, clients, t)
	case workBatches:
		return runBatches(ctx, clients[0], t)
	default:
		return runUncontended(ctx, clients[0], t)
	}
}

// metered runs f and returns the resources that it used. It writes a CPU profile if
// the task has a folder for it.
func (t task) metered(ctx context.Context, f func() error) (u usage, err error) {
	m, err := newMeter(t)
	if err != nil {
		return u, err
	}
	if t.Profile != "" {
		stop, err := bench.Profile(filepath.Join(t.Profile, fmt.Sprint(t.Candidate, "-", t.Work, "-", t.Goroutines, ".pprof")))
		if err != nil {
			return u, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := m.begin(ctx); err != nil {
		return u, err
	}
	if err := f(); err != nil {
		return u, err
	}
	return m.end(ctx)
}
