package renewal_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// lateStats returns the Stats of a watchdog that has sent one renewal in time and one that
// was late by 3 s.
func lateStats(t *testing.T) (stats renewal.Stats) {
	t.Helper()
	phase := 0.5 // a random one can separate the two on the grid
	seam.RenewalPhase.Store(&phase)
	defer seam.RenewalPhase.Store(nil)
	synctest.Test(t, func(t *testing.T) {
		e := heap(t)
		defer e.Close()
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(3 * time.Second)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{InFlight: 1, MaxBatch: 1, Align: period / 2})})
		register(t, watchdog, "a")
		register(t, watchdog, "b")
		for stats = watchdog.Stats(); stats.Renewed < 2; stats = watchdog.Stats() {
			advance(10 * time.Millisecond)
		}
	})
	return stats
}

// The buckets add up to the count, and their bounds do not change.
func TestBuckets(t *testing.T) {
	late := lateStats(t).Late
	require.EqualValues(t, 2, late.Count())
	assert.InDelta(t, 3*time.Second, late.Sum(), float64(10*time.Millisecond))

	var bounds []time.Duration
	var counts []uint64
	for bound, count := range late.Buckets() {
		if len(bounds) > 0 {
			require.Greater(t, bound, bounds[len(bounds)-1])
		}
		bounds = append(bounds, bound)
		if count > 0 {
			counts = append(counts, count)
		}
		if count > 0 && bound > time.Second {
			assert.Less(t, bound, 3400*time.Millisecond)
			assert.GreaterOrEqual(t, bound, 3*time.Second)
		}
	}
	assert.Equal(t, []uint64{1, 1}, counts)
	assert.Equal(t, time.Duration(math.MaxInt64), bounds[len(bounds)-1])
	i := 0
	for bound := range new(renewal.Histogram).Buckets() {
		require.Equal(t, bounds[i], bound)
		i++
	}
	assert.Len(t, bounds, i)
	for range late.Buckets() {
		break // must not panic
	}

	none := late.Since(late)
	assert.Zero(t, none.Count())
	assert.Zero(t, none.Sum())
}

// A monitoring system with fixed bounds, such as Prometheus, gets cumulative counts.
func ExampleHistogram_Buckets() {
	s, err := heapqueue.NewScheduler(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	watchdog, err := renewal.New(s, renewal.Renewer[string](yes{}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	late := watchdog.Stats().Late

	buckets := map[float64]uint64{0.01: 0, 0.1: 0, 1: 0, 10: 0} // upper bounds in seconds
	for bound, count := range late.Buckets() {
		for seconds := range buckets {
			if bound.Seconds() <= seconds {
				buckets[seconds] += count
			}
		}
	}
	// prometheus.NewConstHistogram(desc, late.Count(), late.Sum().Seconds(), buckets)
	fmt.Println(late.Count(), late.Sum(), buckets)
	// Output: 0 0s map[0.01:0 0.1:0 1:0 10:0]
}

type yes struct{}

func (yes) Renew(_ context.Context, batch []string, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}
