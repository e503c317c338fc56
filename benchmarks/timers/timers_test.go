package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// TestMain is also the main function of the children that the tests start.
func TestMain(m *testing.M) {
	if bench.IsChild() {
		os.Exit(program.Main())
	}
	os.Exit(m.Run())
}

// TestSamples takes each sample of each Go peer with few timers. It asserts no
// speeds.
func TestSamples(t *testing.T) {
	for _, p := range peers {
		for work, keys := range map[string][]string{
			"ops":      {"hot.cpu", "near.wall", "par.wall", "hot.bytes"},
			"replace":  {"cpu", "bytes"},
			"reset":    {"cpu", "bytes"},
			"memory":   {"bytes", "gc"},
			"idle":     {"core"},
			"channels": {"cpu", "beyond", "bytes", "calls.allocs", "calls.channels"},
			"contexts": {"plain.cpu", "done.bytes", "child.cpu"},
		} {
			w := rows[slices.IndexFunc(rows, func(w row) bool { return w.sample.Work == work })]
			if !slices.Contains(w.peers(), p.name) {
				continue
			}
			t.Run(p.name+"/"+work, func(t *testing.T) {
				s := spec{Work: work, Pending: 1000, For: 2 * time.Millisecond}
				v, err := p.run(s.forPeer(p.name))
				require.NoError(t, err)
				for _, key := range keys {
					assert.Contains(t, v, key)
				}
			})
		}
	}
}

func TestProbes(t *testing.T) {
	w, err := rowNamed("probe-1m-1")
	require.NoError(t, err)
	for _, name := range w.peers() {
		if name == netty {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, err := peerNamed(name)
			require.NoError(t, err)
			s := spec{Work: "probe", Pending: 1000, Over: time.Minute, For: 20 * time.Millisecond}
			v, err := p.run(s.forPeer(name))
			require.NoError(t, err)
			assert.GreaterOrEqual(t, v["probes"], float64(probeCount), "each probe fires")
			assert.GreaterOrEqual(t, v["max"], v["p50"])
			assert.NotContains(t, v, tooSlow)
		})
	}
}
