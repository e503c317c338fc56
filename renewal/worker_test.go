package renewal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

// The next batch of a worker keeps nothing of the one before, such as its attempt timeout.
func TestABatchForgetsTheOneBefore(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var took []time.Duration
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if lease == "long" {
				return renewal.Renewed, nil
			}
			begun := time.Now()
			<-ctx.Done()
			took = append(took, time.Since(begun))
			return renewal.Unknown, ctx.Err()
		}}
		watchdog := newWatchdog(t, e, s, nil)
		long := register(t, watchdog, "long")
		advance(period)
		require.Positive(t, s.count("long"))
		assert.True(t, long.Stop())
		registerFor(t, watchdog, "short", ttl/10)
		advance(ttl)
		require.NotEmpty(t, took)
		assert.LessOrEqual(t, took[0], period/10)
	})
}

// While some calls of a lane hang and others return, there are never more than InFlight.
func TestAHungCallKeepsItsSlot(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if strings.HasPrefix(lease, "hang") {
				return hang(ctx, lease)
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{InFlight: 2, MaxBatch: 1})
		for i := range 20 {
			register(t, watchdog, fmt.Sprint("hang", i))
			register(t, watchdog, fmt.Sprint("fine", i))
			advance(300 * time.Millisecond)
		}
		advance(ttl)
		assert.Equal(t, 2, s.most)
	})
}

// A lease that ends during its renewal is counted, and its error is kept for the holder.
func TestWhatABatchTellsOfLeasesThatEnded(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(time.Second)
			return renewal.Lost, errIO
		}}
		var infos []renewal.BatchInfo
		watchdog := newWatchdog(t, e, s, &renewal.Options{Hooks: &renewal.Hooks{
			BatchDone: func(b renewal.BatchInfo) { infos = append(infos, b) },
		}})
		stopped := register(t, watchdog, "stopped")
		for len(s.seen()) == 0 {
			advance(time.Millisecond)
		}
		assert.True(t, stopped.Stop())
		advance(2 * time.Second)
		require.Len(t, infos, 1)
		assert.Equal(t, renewal.BatchInfo{Size: 1, Ended: 1, Late: infos[0].Late, Took: time.Second, Err: errIO}, infos[0])

		lost := register(t, watchdog, "lost")
		<-lost.Done()
		require.ErrorIs(t, lost.Err(), errIO, "the error of the store")
	})
}
