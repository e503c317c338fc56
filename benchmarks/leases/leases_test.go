package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// TestMain is also the main function of the children that the tests start.
func TestMain(m *testing.M) {
	if bench.IsChild() {
		os.Exit(program.Main())
	}
	goleak.VerifyTestMain(m)
}

// small is a plan for tests. No test asserts speeds.
var small = plan{leases: 100, ttl: 3 * time.Second, settle: 500 * time.Millisecond, window: time.Second, outage: 500 * time.Millisecond}

func TestMeasure(t *testing.T) {
	for _, c := range candidates() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := small.measure(t.Context(), c.name, 0)
			require.NoError(t, err)
			for _, key := range []string{"rate", "redis", "client", "rss", "heap", "rss per lease", "script p99"} {
				assert.Positive(t, v[key], key)
			}
			assert.Zero(t, v["lost"])
			assert.Zero(t, v["missing"])
			assert.NotContains(t, v, "dead p99")
			if c.ours {
				assert.Positive(t, v["goroutines"])
				assert.Less(t, v["goroutines"], float64(small.leases))
			} else {
				assert.GreaterOrEqual(t, v["goroutines"], float64(small.leases), "one for each lock")
			}
		})
	}
}

func TestMeasureCluster(t *testing.T) {
	t.Parallel()
	v, err := small.measure(t.Context(), clusterPrefix+wheelEngine.name, 0)
	require.NoError(t, err)
	assert.Positive(t, v["rate"])
	assert.Zero(t, v["lost"])
	assert.Zero(t, v["missing"], "on the healthy masters, too, after the third has ended")
	assert.Contains(t, v, "hanging p99")
	assert.Contains(t, v, "dead p99")
}

// The client reports the loss of a deleted lock, and the monitors miss its key.
func TestLostLockIsCounted(t *testing.T) {
	for _, c := range candidates() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := startServers(t.Context(), false)
			require.NoError(t, err)
			defer s.close()
			work := task{Candidate: c.name, Addrs: s.addrs(), Leases: 100, TTL: 3 * time.Second}
			process, err := bench.Start(work)
			require.NoError(t, err)
			defer process.Kill()
			m, err := newMonitors(t.Context(), s, c.key, work)
			require.NoError(t, err)
			require.EqualValues(t, 2, s.nodes[0].rdb.Del(t.Context(), c.key(3), c.key(99)).Val())
			missing, err := m.missing(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, 2, missing, 0)
			assert.Eventually(t, func() bool {
				_, errBegin := process.Call(beginRequest)
				r, errEnd := process.Call(endRequest)
				return r["lost"] == 2 || !assert.NoError(t, errBegin) || !assert.NoError(t, errEnd)
			}, 20*time.Second, 100*time.Millisecond)
		})
	}
}

func TestStartReturnsErrorsOfTheChild(t *testing.T) {
	_, err := bench.Start(task{Candidate: "nobody", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, `unknown candidate "nobody"`)
	_, err = bench.Start(task{Candidate: "rueidislock", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, "127.0.0.1:1")
}
