package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
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
var small = plan{leases: 100, ttl: 3 * time.Second, settle: 500 * time.Millisecond, window: time.Second, saturate: time.Second, outage: 500 * time.Millisecond}

func TestMeasure(t *testing.T) {
	for _, c := range candidates() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := small.measure(t.Context(), target{candidate: c}, 0)
			require.NoError(t, err)
			for what, value := range map[string]float64{
				"renewals": f.Rate, "redis CPU": f.RedisCPU, "client CPU": f.ClientCPU, "RSS": f.RSS, "heap": f.Heap,
				"RSS per lease": f.RSSPerLease, "PTTL": f.SmallestPTTL, "p50 of scripts": f.ScriptP50, "longest script": f.ScriptMax, "without pause": f.Saturated,
			} {
				assert.Positive(t, value, what)
			}
			assert.Zero(t, f.Lost)
			assert.Zero(t, f.Missing)
			assert.LessOrEqual(t, f.SmallestPTTL, 3000.0)
			assert.Nil(t, f.Outage)
			if c.ours {
				assert.Positive(t, f.ClientLateP99)
				assert.Positive(t, f.Goroutines)
				assert.Less(t, f.Goroutines, small.leases)
			} else {
				assert.GreaterOrEqual(t, f.Goroutines, small.leases, "one for each lock")
			}
		})
	}
}

func TestMeasureCluster(t *testing.T) {
	t.Parallel()
	f, err := small.measure(t.Context(), target{wheelEngine, true}, 0)
	require.NoError(t, err)
	assert.Positive(t, f.Rate)
	assert.Positive(t, f.Saturated)
	assert.Zero(t, f.Lost)
	assert.Zero(t, f.Missing)
	require.NotNil(t, f.Outage)
	assert.Zero(t, f.Outage.Missing, "on the healthy masters")
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
			process, err := bench.Start[childResult](work)
			require.NoError(t, err)
			defer process.Kill()
			m, err := newMonitors(t.Context(), s, c.key, work)
			require.NoError(t, err)
			require.EqualValues(t, 2, s.nodes[0].rdb.Del(t.Context(), c.key(3), c.key(99)).Val())
			missing, err := m.missing(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 2, missing)
			assert.Eventually(t, func() bool {
				_, errBegin := process.Call(beginRequest)
				r, errEnd := process.Call(endRequest)
				return r.Lost == 2 || !assert.NoError(t, errBegin) || !assert.NoError(t, errEnd)
			}, 20*time.Second, 100*time.Millisecond)
		})
	}
}

func TestIdleServer(t *testing.T) {
	t.Parallel()
	idle, err := small.idle(t.Context())
	require.NoError(t, err)
	assert.Positive(t, idle)
}

func TestStartReturnsErrorsOfTheChild(t *testing.T) {
	_, err := bench.Start[childResult](task{Candidate: "nobody", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, `unknown candidate "nobody"`)
	_, err = bench.Start[childResult](task{Candidate: "rueidislock", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, "127.0.0.1:1")
}

func TestScale(t *testing.T) {
	c, err := parse([]string{"-leases", "100,200", "-ttl", "3s", "-window", "1s", "-quick"}, io.Discard)
	require.NoError(t, err)
	c.settle = 500 * time.Millisecond
	c.json = filepath.Join(t.TempDir(), "scale.json")
	var out strings.Builder
	require.NoError(t, run(t.Context(), c, &out, io.Discard))
	again, err := load[scaleResults](c.json)
	require.NoError(t, err)
	assert.Equal(t, []int{100, 200}, again.counts())
	for _, engine := range []string{"wheel", "heap"} {
		f, ok := again.point(engine, 200)
		assert.True(t, ok)
		assert.Positive(t, f.ClientCPU)
		assert.Zero(t, f.Lost+f.Missing)
	}
	assert.Equal(t, "\n"+again.report(), out.String())
}
