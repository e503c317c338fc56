package renewal_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// TestStatsCount holds all counters against what the store has seen.
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
		dog := newDog(t, e, s, nil)
		for _, lease := range []string{"a", "b", "lost", "failing"} {
			register(t, dog, lease)
		}
		settle(time.Minute)
		stats := dog.Stats()
		assert.EqualValues(t, len(s.seen()), stats.Batches)
		assert.EqualValues(t, s.count("a")+s.count("b"), stats.Renewed)
		assert.EqualValues(t, 2, stats.Unknown)
		assert.EqualValues(t, 1, stats.NotOwned)
		assert.EqualValues(t, 1, stats.Failed)
		assert.EqualValues(t, 2, stats.Lost())
		assert.Equal(t, 2, stats.Held)
		assert.Zero(t, stats.Oldest)
	})
}

// What waits for a slot is counted, and how long it does.
func TestTheOldestThatWaits(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: hang}
		dog := newDog(t, e, s, &renewal.Options{InFlight: 1, MaxBatch: 1, Align: period / 2})
		register(t, dog, "a")
		register(t, dog, "b")
		for dog.Stats().Due != 1 || dog.Stats().InFlight != 1 {
			settle(time.Millisecond)
		}
		before := dog.Stats().Oldest
		settle(3 * time.Second)
		assert.Equal(t, before+3*time.Second, dog.Stats().Oldest)
		assert.LessOrEqual(t, before, slack+10*time.Millisecond)
	})
}

// Nothing of a batch is left in the next one of the same worker: here the patience
// for leases that can wait longer.
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
		dog := newDog(t, e, s, nil)
		long := register(t, dog, "long")
		settle(period)
		require.Positive(t, s.count("long"))
		assert.True(t, long.Stop())
		registerFor(t, dog, "short", ttl/10)
		settle(ttl)
		require.NotEmpty(t, took)
		assert.LessOrEqual(t, took[0], period/10)
	})
}

// While some calls of a lane hang and others end, there are never more of them than
// there are slots.
func TestAHungCallKeepsItsSlot(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if strings.HasPrefix(lease, "hang") {
				return hang(ctx, lease)
			}
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{InFlight: 2, MaxBatch: 1})
		for i := range 20 {
			register(t, dog, fmt.Sprint("hang", i))
			register(t, dog, fmt.Sprint("fine", i))
			settle(300 * time.Millisecond)
		}
		settle(ttl)
		assert.Equal(t, 2, s.most)
	})
}

// A renewal that ended with the lease says so, and its error is kept for the holder.
func TestWhatABatchTellsOfLeasesThatEnded(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(time.Second)
			return renewal.Lost, errIO
		}}
		var infos []renewal.BatchInfo
		dog := newDog(t, e, s, &renewal.Options{Hooks: &renewal.Hooks{
			BatchDone: func(b renewal.BatchInfo) { infos = append(infos, b) },
		}})
		stopped := register(t, dog, "stopped")
		for len(s.seen()) == 0 {
			settle(time.Millisecond)
		}
		assert.True(t, stopped.Stop())
		settle(2 * time.Second)
		require.Len(t, infos, 1)
		assert.Equal(t, renewal.BatchInfo{Size: 1, Ended: 1, Late: infos[0].Late, Took: time.Second, Err: errIO}, infos[0])

		lost := register(t, dog, "lost")
		<-lost.Done()
		require.ErrorIs(t, lost.Err(), errIO, "what the store said besides")
	})
}

// The first try for an old grant takes half of what is left, and the second comes in
// the middle of the rest.
func TestTheTriesOfAnOldGrant(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var ended []time.Time
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			defer func() { ended = append(ended, time.Now()) }()
			return hang(ctx, lease)
		}}
		dog := newDog(t, e, s, nil)
		const left = 8 * time.Second
		begun := time.Now()
		_, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: begun.Add(left - life)})
		require.NoError(t, err)
		settle(left)
		calls := s.seen()
		require.Len(t, calls, 2)
		rest := begun.Add(left).Sub(calls[0].at)
		assert.InDelta(t, rest/2, ended[0].Sub(calls[0].at), float64(time.Millisecond))
		rest = begun.Add(left).Sub(ended[0])
		assert.InDelta(t, rest/2, calls[1].at.Sub(ended[0]), float64(slack+5*time.Millisecond))
	})
}

// While a renewal is under way its lease ends in time, too, if the host was
// suspended meanwhile.
func TestASuspensionBringsTheDeadlineOfARenewalNearer(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(time.Hour)
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		begun := time.Now()
		entry := register(t, dog, "a")
		for len(s.seen()) == 0 {
			settle(slack + time.Millisecond)
		}
		stepWall(t, 12*time.Second)
		<-entry.Done()
		assert.InDelta(t, life-12*time.Second, time.Since(begun), float64(slack+time.Second))
		settle(time.Hour)
	})
}

// How late a batch is, is how long the first of it has been waiting.
func TestHowLateABatchIs(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var late []time.Duration
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(3 * time.Second)
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{InFlight: 1, MaxBatch: 1, Align: period / 2, Hooks: &renewal.Hooks{
			BatchDone: func(b renewal.BatchInfo) { late = append(late, b.Late) },
		}})
		for _, lease := range []string{"a", "b", "c"} { // which the grid brings together
			register(t, dog, lease)
		}
		settle(period + 9*time.Second)
		require.GreaterOrEqual(t, len(late), 3)
		for i, d := range late[:3] {
			assert.InDelta(t, time.Duration(i)*3*time.Second, d, float64(slack+10*time.Millisecond))
		}
	})
}

// Who takes the place of an entry that is being renewed is renewed when a quarter of
// what is left has passed.
func TestWhenAPlaceThatWasPassedOnIsRenewed(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: hang}
		dog := newDog(t, e, s, nil)
		first := register(t, dog, "first")
		for len(s.seen()) == 0 {
			settle(time.Millisecond)
		}
		begun := time.Now()
		left := time.Until(first.Deadline())
		_, err := first.Pass("second")
		require.NoError(t, err)
		for s.count("second") == 0 {
			settle(time.Millisecond)
		}
		assert.InDelta(t, left/4, time.Since(begun), float64(slack+10*time.Millisecond))
	})
}

func TestAClosedEngineIsTheErrorOfRegister(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		e.Close()
		_, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.Zero(t, dog.Stats().Held)
	})
}

// A step of the wall clock makes renewals early once, not each second from then on.
func TestAStepIsTakenNoteOf(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		stepWall(t, 5*time.Second)
		settle(6 * period)
		assert.True(t, entry.Valid())
		assert.LessOrEqual(t, s.count("a"), 8)
	})
}

// Until is reckoned from the instant of registration, however old the watchdog is.
func TestUntilOfAnOldWatchdog(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), nil)
		settle(24 * time.Hour)
		until := time.Now().Add(5 * time.Minute)
		entry, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now(), Until: until})
		require.NoError(t, err)
		settle(5*time.Minute - 1)
		assert.True(t, entry.Valid())
		settle(1 + slack)
		assert.True(t, closed(entry.Done()))
	})
}

// No more than 1,024 reports of batches wait; when they are gone others may.
func TestReportsOfBatchesWaitInBoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := new(manual)
		gate := make(chan struct{})
		called := 0
		dog := newDog(t, engine, new(store), &renewal.Options{MaxBatch: 1, InFlight: 1, Hooks: &renewal.Hooks{
			BatchDone: func(renewal.BatchInfo) { <-gate; called++ },
		}})
		for i := range 1100 {
			register(t, dog, fmt.Sprint(i))
		}
		var unsaid int
		for round := range 3 {
			settle(period)
			engine.run()
			settle(10 * time.Millisecond)
			before := unsaid
			unsaid = int(dog.Stats().Unsaid)
			assert.InDelta(t, 1100-1024, unsaid-before, 1, "one may be taken out before the others come")
			for range 1100 - (unsaid - before) {
				gate <- struct{}{}
			}
			settle(0)
			assert.Equal(t, (round+1)*1100, called+unsaid)
		}
	})
}

// A loss is logged with what the store said last.
func TestTheLogOfALossSaysWhatTheStoreSaid(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var log strings.Builder
		dog := newDog(t, e, &store{answer: failing}, &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		entry := register(t, dog, "a")
		<-entry.Done()
		settle(0)
		assert.Contains(t, log.String(), errIO.Error())

		log.Reset()
		hung := newDog(t, e, &store{answer: hang}, &renewal.Options{Failures: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stepWall(t, 0)
		entry = register(t, hung, "b")
		stepWall(t, life)
		<-entry.Done()
		settle(0)
		assert.Contains(t, log.String(), "deadline")
		assert.NotContains(t, log.String(), "error=")
	})
}
