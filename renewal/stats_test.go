package renewal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

// Stats counts the leases that wait for a free call, and their longest wait.
func TestTheOldestThatWaits(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: hang}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{InFlight: 1, MaxBatch: 1, Align: period / 2})})
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
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{InFlight: 1, MaxBatch: 1, Align: period / 2}), Hooks: &renewal.Hooks{
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
