package renewal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
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
		assert.True(t, renewal.StopEntry(long, nil))
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
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{InFlight: 2, MaxBatch: 1})})
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
		assert.True(t, renewal.StopEntry(stopped, nil))
		advance(2 * time.Second)
		require.Len(t, infos, 1)
		assert.Equal(t, renewal.BatchInfo{Size: 1, Ended: 1, Late: infos[0].Late, Took: time.Second, Err: errIO}, infos[0])

		lost := register(t, watchdog, "lost")
		<-lost.Done()
		require.ErrorIs(t, lost.Err(), errIO, "the error of the store")
	})
}

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
		watchdog := newWatchdog(t, e, lanedStore{s}, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1, InFlight: 1})})
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
		watchdog := newWatchdog(t, e, lanedStore{s}, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: period / 2})})
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
