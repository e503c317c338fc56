package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// figures are what was measured of one contestant. CPU is in µs per renewal,
// lateness and PTTL in ms, scripts in µs.
type figures struct {
	At     time.Time // the end
	Others float64   // share of a core that other processes of the machine took

	AcquireSeconds float64
	Rate           float64 // renewals per second
	RedisCPU       float64 // less what it takes idle
	ClientCPU      float64
	Goroutines     int
	RSS            float64 // MiB
	Heap           float64 // bytes per lock
	Stack          float64 // bytes per lock
	OwnLateP50     float64 // by the client's own statistics; 0: it has none
	OwnLateP99     float64
	LateP50        float64 // seen from outside
	LateP99        float64
	LeastPTTL      float64
	ScriptP50      float64
	ScriptP99      float64
	ScriptMax      float64
	Saturated      float64 // renewals per second
	Lost           int     // locks that the client says it lost
	Missing        int     // keys that were not there at the end
	Outage         *outage `json:",omitempty"` // of a cluster
}

// results are those of a run, or of several that were put together.
type results struct {
	Machine string
	Redis   string
	Go      string
	Leases  int
	TTL     float64 // seconds
	Window  float64 // seconds
	Idle    float64 // share of a core that an idle server took
	Figures map[string]figures
}

func newResults(ctx context.Context, p plan) (*results, error) {
	s, err := open(ctx, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	version, err := s.nodes[0].version(ctx)
	return &results{
		Machine: bench.Machine(), Redis: version, Go: runtime.Version(),
		Leases: p.leases, TTL: p.ttl.Seconds(), Window: p.window.Seconds(),
		Figures: map[string]figures{},
	}, err
}

// load reads results from a file.
func load(path string) (*results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// save adds the results to those that a file has already. They must be of the
// same leases.
func (r *results) save(path string) error {
	before, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case before.Leases != r.Leases || before.TTL != r.TTL:
		return fmt.Errorf("%s has results of %d leases of %v s: not the same", path, before.Leases, before.TTL)
	default:
		for name, f := range before.Figures {
			if _, anew := r.Figures[name]; !anew {
				r.Figures[name] = f
			}
		}
	}
	return bench.Save(path, r)
}
