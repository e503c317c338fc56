// The results of a run, and the file that holds them.

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

// figures are the results of one target. CPU is in µs per renewal, lateness and PTTL
// in ms, script times in µs.
type figures struct {
	At     time.Time // end of the measurement
	Others float64   // cores that other processes of the machine used

	AcquireSeconds float64
	Rate           float64 // renewals per second
	RedisCPU       float64 // without what an idle server needs
	ClientCPU      float64
	Goroutines     int
	RSS            float64 // MiB
	RSSPerLease    float64 // bytes
	Heap           float64 // bytes per lock
	Stack          float64 // bytes per lock
	ClientLateP50  float64 // by the client's own statistics; 0 if it has none
	ClientLateP99  float64
	LateP50        float64 // by the monitors
	LateP99        float64
	SmallestPTTL   float64
	ScriptP50      float64
	ScriptP99      float64
	ScriptMax      float64
	Saturated      float64 // renewals per second
	Lost           int     // locks that the client reported as lost
	Missing        int     // keys that did not exist at the end
	Outage         *outage `json:",omitempty"` // of a cluster
}

// setup describes the machine, the versions and the terms of a run.
type setup struct {
	Machine    string
	Redis      string
	Go         string
	LoadBefore string  // load averages of 1, 5 and 15 minutes
	TTL        float64 // seconds
	Window     float64 // seconds
}

// results are the results of one run, or of several joined runs.
type results struct {
	setup
	Leases  int
	Idle    float64 // share of a core that an idle server needed
	Figures map[string]figures
}

func newSetup(ctx context.Context, p plan) (setup, error) {
	s, err := startServers(ctx, false)
	if err != nil {
		return setup{}, err
	}
	defer s.close()
	version, err := s.nodes[0].version(ctx)
	return setup{
		Machine: bench.Machine(), Redis: version, Go: runtime.Version(), LoadBefore: bench.Load(),
		TTL: p.ttl.Seconds(), Window: p.window.Seconds(),
	}, err
}

func (s setup) String() string {
	return fmt.Sprintf("%s, Redis %s, %s, load average %s before the run.", s.Machine, s.Redis, s.Go, s.LoadBefore)
}

// load reads results from a file.
func load[R any](path string) (*R, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(R)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// save writes the results to a file. It keeps the file's figures of targets that
// this run did not measure, and requires the same leases.
func (r *results) save(path string) error {
	before, err := load[results](path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case before.Leases != r.Leases || before.TTL != r.TTL:
		return fmt.Errorf("%s has results of %d leases of %v s, this run has %d of %v s", path, before.Leases, before.TTL, r.Leases, r.TTL)
	default:
		for name, f := range before.Figures {
			if _, measured := r.Figures[name]; !measured {
				r.Figures[name] = f
			}
		}
	}
	return bench.Save(path, r)
}
