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

// stepWall steps the wall clock against the monotonic clock until the test ends.
func stepWall(t *testing.T, d time.Duration) {
	seam.StepWall(d)
	t.Cleanup(func() { seam.StepWall(-d) })
}

// The host is suspended for longer than the lease. Its monotonic clock stops, and so do all
// timers.
func TestASuspensionEndsTheLeaseOnResume(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var log strings.Builder
		watchdog := newWatchdog(t, e, new(store), &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		entry := register(t, watchdog, "a")
		done := entry.Done()
		advance(time.Minute)
		stepWall(t, 40*time.Second)
		assert.False(t, entry.Valid(), "the wall clock is past the deadline")
		advance(time.Second + slack)
		assert.True(t, closed(done), "Done is closed within a second")
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
		assert.Contains(t, log.String(), "wall clock")
	})
}

// After a shorter suspension the lease has time left. It is renewed early, because its timer
// is late by the length of the suspension.
func TestAShortSuspensionMakesTheRenewalEarly(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a") // its first renewal comes after 5 s at the earliest
		advance(time.Second)
		stepWall(t, 25*time.Second)
		assert.True(t, entry.Valid())
		assert.Equal(t, validity-26*time.Second, time.Until(entry.Deadline()), "the clock with less time left decides")
		advance(time.Second + slack + (validity-26*time.Second)/2)
		assert.Len(t, s.seen(), 1)
		advance(time.Minute)
		assert.NoError(t, entry.Err())
	})
}

// After a step of the clock the leases are renewed early, but not together. Otherwise they
// would stay together.
func TestRenewalsAfterAClockStepAreSpread(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 10_000})})
		for i := range 500 {
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(time.Minute)
		stepWall(t, time.Second)
		advance(5 * time.Minute)
		most := 0
		calls := s.seen()
		for _, c := range calls[len(calls)/2:] {
			most = max(most, len(c.batch))
		}
		assert.Less(t, most, 50)
	})
}

// A wall clock that is stepped back must not hide a later suspension.
func TestAClockStepBackDoesNotHideASuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: failing}
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}, Logger: logger})
		entry := register(t, watchdog, "a")
		advance(5 * time.Second)
		stepWall(t, -10*time.Second)
		advance(5 * time.Second)
		assert.Contains(t, log.String(), "by=-10s")
		stepWall(t, 25*time.Second) // suspended: 35 s since the grant
		assert.False(t, entry.Valid())
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
	})
}

// Two steps within the tolerance, with a renewal between them, must not hide a suspension.
func TestSmallClockStepsDoNotHideASuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var sent time.Time
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			if !sent.IsZero() {
				return 0, errIO
			}
			sent = time.Now()
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		const small = margin - time.Millisecond
		advance(time.Second)
		stepWall(t, small)
		advance(period + slack)
		require.False(t, sent.IsZero())
		stepWall(t, -2*small)
		advance(2 * time.Second)
		stepWall(t, 5*time.Second) // suspended
		assert.Equal(t, sent.Add(validity-5*time.Second), entry.Deadline())
	})
}

// A step back must not undo an earlier suspension, which the monotonic clock has not
// counted.
func TestAClockStepBackDoesNotUndoASuspension(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		stepWall(t, 20*time.Second) // suspended
		advance(2*time.Second + slack)
		stepWall(t, -25*time.Second)
		advance(validity - 22*time.Second - slack - 1)
		assert.True(t, entry.Valid())
		advance(1)
		assert.False(t, entry.Valid(), "the clock of the server ran during the suspension")
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
	})
}

// The host is suspended during a renewal.
func TestASuspensionDuringARenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(5 * time.Second)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		for len(s.seen()) == 0 {
			advance(slack + time.Millisecond)
		}
		sent := s.seen()[0].at
		stepWall(t, 12*time.Second) // suspended
		advance(time.Until(sent.Add(6 * time.Second)))
		assert.Equal(t, sent.Add(validity-12*time.Second), entry.Deadline())
		stepWall(t, -12*time.Second)
		assert.Equal(t, sent.Add(validity-12*time.Second), entry.Deadline())
	})
}

// A lease whose deadline no renewal can move is not renewed, even after a step of the clock.
func TestAClockStepDoesNotRenewALeaseAtItsEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		now := time.Now()
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(validity)})
		require.NoError(t, err)
		for _, step := range []time.Duration{3 * time.Second, -5 * time.Second, time.Second} {
			advance(2*time.Second + slack)
			stepWall(t, step)
		}
		advance(time.Minute)
		assert.Equal(t, renewal.ReasonLimitReached, reasonOf(t, entry.Err()))
		assert.Empty(t, s.seen())
	})
}

// Suspensions within the tolerance add up.
func TestManySmallSuspensionsAddUp(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		done := register(t, watchdog, "a").Done()
		suspended := time.Duration(0)
		start := time.Now()
		for !closed(done) {
			advance(100 * time.Millisecond)
			stepWall(t, 25*time.Millisecond)
			suspended += 25 * time.Millisecond
		}
		assert.Less(t, time.Since(start)+suspended, ttl+slack, "the holder is told before the server can grant the lease again")
	})
}

// The end of a lease is kept on the wall clock too.
func TestUntilCountsSuspensions(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		now := time.Now()
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(time.Minute)})
		require.NoError(t, err)
		for range 3 {
			advance(7 * time.Second) // time to renew
			stepWall(t, 10*time.Second)
		}
		advance(9*time.Second - 1)
		require.NoError(t, entry.Err())
		assert.True(t, entry.Valid())
		advance(1)
		assert.False(t, entry.Valid())
	})
}

type taskFunc func(schedule.Timer)

func (f taskFunc) Run(t schedule.Timer) { f(t) }

func TestAClockStepBackEndsNoLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: hang}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		advance(time.Second)
		stepWall(t, -time.Hour)
		advance(validity - time.Second - 1)
		assert.True(t, entry.Valid())
		advance(1)
		assert.False(t, entry.Valid(), "the monotonic clock has less time left")
	})
}

func TestClocksAreComparedOnlyWhileLeasesAreHeld(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		for range 3 { // and again, after there were none
			entry := register(t, watchdog, "a")
			advance(5 * time.Second)
			entry.Stop(nil)
			advance(2 * time.Second)
			assert.Zero(t, pending(e), "no timer is pending")
		}
		register(t, watchdog, "b")
		_, err := watchdog.Close(t.Context())
		require.NoError(t, err)
		assert.Zero(t, pending(e), "no timer is pending after Close")
	})
}

func pending(e engine) int {
	switch e := e.(type) {
	case *wheel.Wheel:
		return e.Stats().Pending
	case *heapqueue.Scheduler:
		return e.Stats().Pending
	}
	panic("unknown engine")
}

// A lease ends in time if the host is suspended during its renewal.
func TestASuspensionMovesTheDeadlineOfARenewalForward(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(time.Hour)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		begun := time.Now()
		entry := register(t, watchdog, "a")
		for len(s.seen()) == 0 {
			advance(slack + time.Millisecond)
		}
		stepWall(t, 12*time.Second)
		<-entry.Done()
		assert.InDelta(t, validity-12*time.Second, time.Since(begun), float64(slack+time.Second))
		advance(time.Hour)
	})
}

// A step of the wall clock makes renewals early once, not in every later second.
func TestAClockStepMakesRenewalsEarlyOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		stepWall(t, 5*time.Second)
		advance(6 * period)
		assert.True(t, entry.Valid())
		assert.LessOrEqual(t, s.count("a"), 8)
	})
}
