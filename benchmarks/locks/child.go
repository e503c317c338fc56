package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// Works are what a child can do.
const (
	workPairs   = "pairs"
	workHandOff = "handoff"
	workBatches = "batches"
)

// order tells a child what to do. It is the first line that it reads; it connects,
// and says so by an empty answer. At the next line it does it, and answers.
type order struct {
	Work       string
	Contestant string
	Addr       string
	Goroutines int // that lock; each is a client of its own if it is a hand-off
	Window     time.Duration
	Profile    string // folder for CPU profiles; "" is none
}

// answer is what a child says.
type answer struct {
	Error string `json:",omitempty"`

	usage
	Count    int // pairs, hand-offs
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
	kid, err := bench.Start(o, func(a answer) string { return a.Error })
	if err != nil {
		return answer{}, err
	}
	defer kid.Stop()
	return kid.Say("begin")
}

// child does what it is told until its input ends, which it does with the parent.
func child(in io.Reader, out io.Writer) error {
	redis.SetLogger(silent{})
	decode, encode := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := decode.Decode(&o); err != nil {
		return err
	}
	clients, err := connect(o)
	if err != nil {
		return encode.Encode(answer{Error: err.Error()})
	}
	if err := encode.Encode(answer{}); err != nil {
		return err
	}
	for {
		var begin string
		if err := decode.Decode(&begin); err != nil {
			return nil // the parent has gone
		}
		a, err := o.do(context.Background(), clients)
		if err != nil {
			a.Error = err.Error()
		}
		if err := encode.Encode(a); err != nil {
			return err
		}
	}
}

// connect makes the clients.
func connect(o order) ([]client, error) {
	contestant, err := find(o.Contestant)
	if err != nil {
		return nil, err
	}
	clients := make([]client, 1)
	if o.Work == workHandOff {
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
	case workHandOff:
		return runHandOff(ctx, clients, o)
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
		file, err := os.Create(filepath.Join(o.Profile, fmt.Sprint(o.Contestant, "-", o.Work, "-", o.Goroutines, ".pprof")))
		if err != nil {
			return u, err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return u, err
		}
		defer pprof.StopCPUProfile()
	}
	if err := m.begin(ctx); err != nil {
		return u, err
	}
	if err := f(); err != nil {
		return u, err
	}
	return m.end(ctx)
}

// silent keeps the lines of go-redis out of the output.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}
