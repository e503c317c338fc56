package renewal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestReplace(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		first := register(t, watchdog, "first")
		advance(period / 4)
		require.Zero(t, s.count("first"))
		deadline, done := first.Deadline(), first.Done()

		second, err := first.Replace("second", ttl)
		require.NoError(t, err)
		<-done
		assert.False(t, first.Valid())
		require.ErrorIs(t, first.Err(), renewal.ErrStopped)
		assert.False(t, renewal.StopEntry(first, nil))
		assert.True(t, second.Valid())
		assert.Equal(t, "second", second.Lease())
		assert.Equal(t, deadline, second.Deadline())
		assert.Equal(t, 1, watchdog.Stats().Held)

		advance(period)
		assert.Equal(t, 1, s.count("second"), "the next renewal keeps its time")
		advance(time.Hour)
		assert.True(t, second.Valid())
		assert.Zero(t, s.count("first"))
	})
}

// A late answer for the replaced entry does not affect the new one.
func TestReplaceDuringARenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		hold := make(chan struct{})
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease == "first" {
				<-hold
				return renewal.Lost, nil
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		first := register(t, watchdog, "first")
		advance(period)
		require.Equal(t, 1, s.count("first"))
		second, err := first.Replace("second", ttl)
		require.NoError(t, err)
		close(hold)
		advance(period)
		assert.Equal(t, 1, s.count("second"), "it is renewed within less than a period")
		advance(time.Hour)
		assert.True(t, second.Valid())
	})
}

func TestReplaceOfAnEndedEntry(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: hang}, nil)
		stopped, lost := register(t, watchdog, "stopped"), register(t, watchdog, "lost")
		stopped.Stop(nil)
		_, err := stopped.Replace("next", ttl)
		require.ErrorIs(t, err, renewal.ErrStopped)
		time.Sleep(validity) // no timer has run yet when Pass looks at the clock
		_, err = lost.Replace("next", ttl)
		require.ErrorIs(t, err, renewal.ErrLost)
		assert.Zero(t, watchdog.Stats().Held)
	})
}

func TestReplaceKeepsTheEndOfTheLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		start := time.Now()
		watchdog := newWatchdog(t, e, new(store), nil)
		first, err := watchdog.Register("first", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(time.Minute)})
		require.NoError(t, err)
		advance(period)
		second, err := first.Replace("second", ttl)
		require.NoError(t, err)
		<-second.Done()
		assert.LessOrEqual(t, time.Since(start), time.Minute+slack)
		assert.GreaterOrEqual(t, time.Since(start), time.Minute-time.Second)
	})
}

func TestReplaceOnAFullEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := wheel.New(&wheel.Options{Tick: time.Millisecond, MaxPending: 1})
		require.NoError(t, err)
		defer e.Close()
		watchdog := newWatchdog(t, e, new(store), nil)
		first := register(t, watchdog, "first")
		_, err = first.Replace("second", ttl)
		require.ErrorIs(t, err, schedule.ErrFull)
		assert.True(t, first.Valid())
		assert.True(t, renewal.StopEntry(first, nil))
	})
}

func TestReplaceOnAClosedEngine(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		first := register(t, watchdog, "first")
		e.Close()
		_, err := first.Replace("second", ttl)
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.False(t, first.Valid())
	})
}

// The second failure in a row ends the lease, although an entry was replaced in between.
func TestReplaceKeepsTheFailures(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: failing}, nil)
		start := time.Now()
		first := register(t, watchdog, "first")
		advance(period + slack)
		second, err := first.Replace("second", ttl)
		require.NoError(t, err)
		<-second.Done()
		assert.LessOrEqual(t, time.Since(start), 2*period+2*slack)
		var lost *renewal.LostError
		require.ErrorAs(t, second.Err(), &lost)
		assert.Equal(t, renewal.ReasonFailed, lost.Reason)
	})
}

// An entry that replaces one during its renewal is renewed after a quarter of the remaining
// time.
func TestReplaceDuringARenewalRenewsSoon(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: hang}
		watchdog := newWatchdog(t, e, s, nil)
		first := register(t, watchdog, "first")
		for len(s.seen()) == 0 {
			advance(time.Millisecond)
		}
		begun := time.Now()
		left := time.Until(first.Deadline())
		_, err := first.Replace("second", ttl)
		require.NoError(t, err)
		for s.count("second") == 0 {
			advance(time.Millisecond)
		}
		assert.InDelta(t, left/4, time.Since(begun), float64(slack+10*time.Millisecond))
	})
}
