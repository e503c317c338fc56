package renewal_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// stepWall steps the wall clock against the monotonic one for the rest of a test.
func stepWall(t *testing.T, d time.Duration) {
	seam.StepWall(d)
	t.Cleanup(func() { seam.StepWall(-d) })
}

// A host suspended for longer than the lease: its monotonic clock, and so every
// timer, stood still.
func TestASuspendedHostIsToldOnWaking(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var log strings.Builder
		dog := newDog(t, e, new(store), &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		entry := register(t, dog, "a")
		done := entry.Done()
		settle(time.Minute)
		stepWall(t, 40*time.Second)
		assert.False(t, entry.Valid(), "right at once, by the wall clock")
		settle(time.Second + slack)
		assert.True(t, closed(done), "told within a second")
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		assert.Contains(t, log.String(), "wall clock")
	})
}

// A shorter suspension leaves some of the lease: it is renewed early, for the
// timers are late by the time of the suspension.
func TestAShortSuspensionRenewsEarly(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a") // its first renewal comes after 5 s at the earliest
		settle(time.Second)
		stepWall(t, 25*time.Second)
		assert.True(t, entry.Valid())
		assert.Equal(t, life-26*time.Second, time.Until(entry.Deadline()), "by the clock that leaves less")
		settle(time.Second + slack + (life-26*time.Second)/2)
		assert.Len(t, s.seen(), 1)
		settle(time.Minute)
		assert.NoError(t, entry.Err())
	})
}

// After a step the leases are renewed early, but not all together, or they would be
// for ever after.
func TestAStepDoesNotBringRenewalsTogether(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{MaxBatch: 10_000})
		for i := range 2000 {
			register(t, dog, fmt.Sprint(i))
		}
		settle(time.Minute)
		stepWall(t, time.Second)
		settle(5 * time.Minute)
		most := 0
		calls := s.seen()
		for _, c := range calls[len(calls)/2:] {
			most = max(most, len(c.batch))
		}
		assert.Less(t, most, 200)
	})
}

// A wall clock that was stepped back must not hide a suspension that follows.
func TestAStepBackHidesNoSuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: failing}
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		dog := newDog(t, e, s, &renewal.Options{Failures: -1, Logger: logger})
		entry := register(t, dog, "a")
		settle(5 * time.Second)
		stepWall(t, -10*time.Second)
		settle(5 * time.Second)
		assert.Contains(t, log.String(), "by=-10s")
		stepWall(t, 25*time.Second) // suspended: 35 s since the grant
		assert.False(t, entry.Valid())
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
	})
}

// Nor may two steps, each too small to matter, when the lease was renewed between them.
func TestSmallStepsHideNoSuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var sent time.Time
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			if !sent.IsZero() {
				return 0, errIO
			}
			sent = time.Now()
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		const small = margin - time.Millisecond
		settle(time.Second)
		stepWall(t, small)
		settle(period + slack)
		require.False(t, sent.IsZero())
		stepWall(t, -2*small)
		settle(2 * time.Second)
		stepWall(t, 5*time.Second) // suspended
		assert.Equal(t, sent.Add(life-5*time.Second), entry.Deadline())
	})
}

// Nor may one that is stepped back undo a suspension before it, which the monotonic
// clock knows nothing of.
func TestAStepBackUndoesNoSuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		stepWall(t, 20*time.Second) // suspended
		settle(2*time.Second + slack)
		stepWall(t, -25*time.Second)
		settle(life - 22*time.Second - slack - 1)
		assert.True(t, entry.Valid())
		settle(1)
		assert.False(t, entry.Valid(), "the server has counted the suspension")
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
	})
}

// The same with a renewal that is under way while the host is suspended.
func TestASuspensionDuringARenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(5 * time.Second)
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		for len(s.seen()) == 0 {
			settle(slack + time.Millisecond)
		}
		sent := s.seen()[0].at
		stepWall(t, 12*time.Second) // suspended
		settle(time.Until(sent.Add(6 * time.Second)))
		assert.Equal(t, sent.Add(life-12*time.Second), entry.Deadline())
		stepWall(t, -12*time.Second)
		assert.Equal(t, sent.Add(life-12*time.Second), entry.Deadline())
	})
}

// A lease that no renewal can move is not renewed, whatever the clocks do.
func TestAStepRenewsNothingThatIsAtItsEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		now := time.Now()
		entry, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(life)})
		require.NoError(t, err)
		for _, step := range []time.Duration{3 * time.Second, -5 * time.Second, time.Second} {
			settle(2*time.Second + slack)
			stepWall(t, step)
		}
		settle(time.Minute)
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		assert.Empty(t, s.seen())
	})
}

// Naps too short to notice add up.
func TestManySmallSuspensions(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		done := register(t, dog, "a").Done()
		suspended := time.Duration(0)
		start := time.Now()
		for !closed(done) {
			settle(100 * time.Millisecond)
			stepWall(t, 25*time.Millisecond)
			suspended += 25 * time.Millisecond
		}
		assert.Less(t, time.Since(start)+suspended, ttl+slack, "told before the server could give it away")
	})
}

// The end of a lease is an instant on the wall clock too.
func TestUntilCountsSuspensions(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), nil)
		now := time.Now()
		entry, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		for range 3 {
			settle(7 * time.Second) // time to renew
			stepWall(t, 10*time.Second)
		}
		settle(9*time.Second - 1)
		require.NoError(t, entry.Err())
		assert.True(t, entry.Valid())
		settle(1)
		assert.False(t, entry.Valid())
	})
}

// dozing is an engine whose process stood still after a timer's delay was reckoned
// and before it was armed: the timer is late by that.
type dozing struct {
	engine
	by time.Duration
}

func (d *dozing) Schedule(delay time.Duration, task schedule.Task) (schedule.Timer, error) {
	timer, err := d.engine.Schedule(delay, task)
	return schedule.NewTimer(dozer{d, timer}, 0), err
}

type dozer struct {
	d     *dozing
	timer schedule.Timer
}

func (d dozer) ResetTimer(_ uint64, delay time.Duration) bool { return d.timer.Reset(delay + d.d.by) }
func (d dozer) StopTimer(uint64) bool                         { return d.timer.Stop() }
func (d dozer) AwaitTimer(uint64)                             {}

func TestAPauseWhileATimerIsArmed(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		doze := &dozing{engine: e, by: time.Hour}
		s := &store{answer: hang}
		dog := newDog(t, doze, s, nil)
		entry := register(t, dog, "a")
		done := entry.Done()
		doze.by = 0
		_, err := e.Schedule(0, taskFunc(func(schedule.Timer) { time.Sleep(4 * time.Second) })) // and nothing ran meanwhile
		require.NoError(t, err)
		settle(life + slack)
		assert.True(t, closed(done), "the comparison of clocks noticed the pause")
		assert.NotEmpty(t, s.seen(), "and a renewal was tried")
	})
}

type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

func TestAWallClockSteppedBackEndsNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: hang}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		settle(time.Second)
		stepWall(t, -time.Hour)
		settle(life - time.Second - 1)
		assert.True(t, entry.Valid())
		settle(1)
		assert.False(t, entry.Valid(), "the monotonic clock decides: it leaves less")
	})
}

func TestClocksAreComparedOnlyWhileLeasesAreHeld(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), nil)
		for range 3 { // and again, after there were none
			entry := register(t, dog, "a")
			settle(5 * time.Second)
			entry.Stop()
			settle(2 * time.Second)
			assert.Zero(t, pending(e), "no timer is left")
		}
		register(t, dog, "b")
		_, err := dog.Close(t.Context())
		require.NoError(t, err)
		assert.Zero(t, pending(e), "nor after Close")
	})
}

func pending(e engine) int {
	switch e := e.(type) {
	case *wheel.Wheel:
		return e.Stats().Pending
	case *heapqueue.Scheduler:
		return e.Stats().Pending
	}
	panic("an engine unknown to this test")
}
