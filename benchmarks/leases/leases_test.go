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
	if bench.Child() {
		os.Exit(program.Status())
	}
	goleak.VerifyTestMain(m)
}

// small measures little, and nothing of what it measures is asserted to be fast.
var small = plan{leases: 100, ttl: 3 * time.Second, settle: 500 * time.Millisecond, window: time.Second, flatOut: time.Second, outage: 500 * time.Millisecond}

func TestEachContestantIsMeasured(t *testing.T) {
	for _, c := range contestants() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, err := small.measure(t.Context(), lineUp{contestant: c}, 0)
			require.NoError(t, err)
			for what, value := range map[string]float64{
				"renewals": f.Rate, "redis CPU": f.RedisCPU, "client CPU": f.ClientCPU, "RSS": f.RSS, "heap": f.Heap,
				"PTTL": f.LeastPTTL, "p50 of scripts": f.ScriptP50, "longest script": f.ScriptMax, "flat out": f.Saturated,
			} {
				assert.Positive(t, value, what)
			}
			assert.Zero(t, f.Lost)
			assert.Zero(t, f.Missing)
			assert.LessOrEqual(t, f.LeastPTTL, 3000.0)
			assert.Nil(t, f.Outage)
			if c.ours {
				assert.Positive(t, f.OwnLateP99)
				assert.Positive(t, f.Goroutines)
				assert.Less(t, f.Goroutines, small.leases)
			} else {
				assert.GreaterOrEqual(t, f.Goroutines, small.leases, "one for each lock")
			}
		})
	}
}

func TestACluster(t *testing.T) {
	t.Parallel()
	f, err := small.measure(t.Context(), lineUp{wheelEngine, true}, 0)
	require.NoError(t, err)
	assert.Positive(t, f.Rate)
	assert.Positive(t, f.Saturated)
	assert.Zero(t, f.Lost)
	assert.Zero(t, f.Missing)
	require.NotNil(t, f.Outage)
	assert.Zero(t, f.Outage.Missing, "on those that are healthy")
}

// A lock that ends is seen: by the client that should keep it, and from outside.
func TestALostLockIsCounted(t *testing.T) {
	for _, c := range contestants() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t.Context(), false)
			require.NoError(t, err)
			defer s.close()
			o := order{Contestant: c.name, Addrs: s.addrs(), Leases: 100, TTL: 3 * time.Second}
			kid, err := bench.Start[answer](o)
			require.NoError(t, err)
			defer kid.Stop()
			crowd, err := newCrowd(t.Context(), s, c.key, o)
			require.NoError(t, err)
			require.EqualValues(t, 2, s.nodes[0].rdb.Del(t.Context(), c.key(3), c.key(99)).Val())
			gone, err := crowd.missing(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 2, gone)
			assert.Eventually(t, func() bool {
				_, errBegin := kid.Say(begin)
				a, errEnd := kid.Say(end)
				return a.Lost == 2 || !assert.NoError(t, errBegin) || !assert.NoError(t, errEnd)
			}, 20*time.Second, 100*time.Millisecond)
		})
	}
}

func TestAnIdleServerTakesALittle(t *testing.T) {
	t.Parallel()
	idle, err := small.idle(t.Context())
	require.NoError(t, err)
	assert.Positive(t, idle)
}

func TestAChildTellsWhatIsWrong(t *testing.T) {
	_, err := bench.Start[answer](order{Contestant: "nobody", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, `no contestant "nobody"`)
	_, err = bench.Start[answer](order{Contestant: "rueidislock", Addrs: []string{"127.0.0.1:1"}, Leases: 100, TTL: time.Second})
	require.ErrorContains(t, err, "127.0.0.1:1")
}
