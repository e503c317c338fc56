package renewal_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type lanedStore struct{ *store }

func (lanedStore) Lane(lease string) int { return int(lease[0]) }

func TestAHungLaneDelaysNoOtherLane(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if lease[0] == 'x' {
				return hang(ctx, lease)
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, lanedStore{s}, &renewal.Options{MaxBatch: 1, InFlight: 1})
		var dead, healthy []*renewal.Entry[string]
		for i := range 20 {
			dead = append(dead, register(t, watchdog, fmt.Sprint("x", i)))
			healthy = append(healthy, register(t, watchdog, fmt.Sprint("y", i)))
		}
		advance(10 * time.Minute)
		for i := range dead {
			assert.ErrorIs(t, dead[i].Err(), renewal.ErrLost)
			assert.NoError(t, healthy[i].Err())
		}
		stats := watchdog.Stats()
		assert.LessOrEqual(t, stats.Late.Quantile(0.5), slack+time.Millisecond)
		for _, c := range s.seen() {
			assert.Len(t, c.batch, 1)
		}
	})
}

// If Lane panics, the lease is not renewed, but its holder is told of the loss.
func TestALaneThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(&wheel.Options{Tick: 20 * time.Millisecond, OnPanic: func(schedule.Task, any, []byte) {}})
		require.NoError(t, err)
		defer w.Close()
		watchdog := newWatchdog(t, w, lanedStore{new(store)}, nil)
		entry, other := register(t, watchdog, ""), register(t, watchdog, "other") // Lane takes the first byte
		<-entry.Done()
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
		assert.NoError(t, other.Err())
	})
}

func TestLanesAreNotMixed(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, lanedStore{s}, &renewal.Options{Align: period / 2})
		for i := range 90 {
			register(t, watchdog, fmt.Sprint(string(rune('a'+i%3)), i))
		}
		advance(time.Minute)
		require.NotEmpty(t, s.seen())
		for _, c := range s.seen() {
			for _, l := range c.batch {
				assert.Equal(t, c.batch[0][0], l[0])
			}
		}
	})
}
