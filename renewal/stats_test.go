package renewal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

// The counters match the calls of the store.
func TestStatsCount(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			switch lease {
			case "lost":
				return renewal.Lost, errIO
			case "failing":
				return failing(ctx, lease)
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		for _, lease := range []string{"a", "b", "lost", "failing"} {
			register(t, watchdog, lease)
		}
		advance(time.Minute)
		stats := watchdog.Stats()
		assert.EqualValues(t, len(s.seen()), stats.Batches)
		assert.EqualValues(t, s.count("a")+s.count("b"), stats.Renewed)
		assert.EqualValues(t, 2+1, stats.Unknown, "the denial verifies the others, once")
		assert.EqualValues(t, 1, stats.NotOwned)
		assert.EqualValues(t, 1, stats.Failed)
		assert.EqualValues(t, 2, stats.Lost())
		assert.Equal(t, 2, stats.Held)
		assert.Zero(t, stats.Oldest)
	})
}

// Stats counts the leases that wait for a free call, and their longest wait.
func TestTheOldestThatWaits(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: hang}
		watchdog := newWatchdog(t, e, s, &renewal.Options{InFlight: 1, MaxBatch: 1, Align: period / 2})
		register(t, watchdog, "a")
		register(t, watchdog, "b")
		for watchdog.Stats().Due != 1 || watchdog.Stats().InFlight != 1 {
			advance(time.Millisecond)
		}
		before := watchdog.Stats().Oldest
		advance(3 * time.Second)
		assert.Equal(t, before+3*time.Second, watchdog.Stats().Oldest)
		assert.LessOrEqual(t, before, slack+10*time.Millisecond)
	})
}

// The lateness of a batch is that of its first lease.
func TestHowLateABatchIs(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var late []time.Duration
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(3 * time.Second)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{InFlight: 1, MaxBatch: 1, Align: period / 2, Hooks: &renewal.Hooks{
			BatchDone: func(b renewal.BatchInfo) { late = append(late, b.Late) },
		}})
		for _, lease := range []string{"a", "b", "c"} { // which the grid brings together
			register(t, watchdog, lease)
		}
		advance(period + 9*time.Second)
		require.GreaterOrEqual(t, len(late), 3)
		for i, d := range late[:3] {
			assert.InDelta(t, time.Duration(i)*3*time.Second, d, float64(slack+10*time.Millisecond))
		}
	})
}
