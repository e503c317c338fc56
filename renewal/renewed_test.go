package renewal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestRenewedMovesTheDeadlineAndTheNextRenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: -1})})
		entry := register(t, watchdog, "a")
		advance(period / 4)
		require.Zero(t, s.count("a"))
		sent := time.Now()
		require.NoError(t, entry.Update(renewal.Grant{Sent: sent}, nil))
		assert.Equal(t, sent.Add(validity), entry.Deadline())
		advance(period - 2*slack - 10*time.Millisecond)
		assert.Zero(t, s.count("a"), "the next renewal is a period after the request")
		advance(3*slack + 20*time.Millisecond)
		assert.Equal(t, 1, s.count("a"))
		advance(time.Hour)
		assert.True(t, entry.Valid())
	})
}

func TestRenewedNeverMovesTheDeadlineBack(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		entry := register(t, watchdog, "a")
		deadline := entry.Deadline()
		require.NoError(t, entry.Update(renewal.Grant{Sent: time.Now().Add(-time.Second)}, nil))
		assert.Equal(t, deadline, entry.Deadline())
		require.NoError(t, entry.Update(renewal.Grant{}, nil))
		assert.Equal(t, deadline, entry.Deadline(), "an old request moves nothing")
		require.NoError(t, entry.Update(renewal.Grant{Sent: time.Now().Add(time.Hour)}, nil))
		assert.Equal(t, time.Now().Add(validity), entry.Deadline(), "a time in the future counts as now")
	})
}

func TestAChangeAloneIsNoRenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: failing}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		advance(period)
		require.Len(t, s.seen(), 1)
		require.NoError(t, entry.Update(renewal.Grant{}, func(string) string { return "b" }))
		assert.Equal(t, "b", entry.Lease())
		<-entry.Done()
		assert.Len(t, s.seen(), 2, "the failure before counts")
		assert.Equal(t, renewal.ReasonFailed, reasonOf(t, entry.Err()))
		require.ErrorIs(t, entry.Update(renewal.Grant{}, func(string) string { panic("changed") }), renewal.ErrLost)
	})
}

// If the host was suspended during the request, only the wall clock knows its age. Readings
// in a bubble have no monotonic part, so this test uses real time. It never waits.
func TestRenewedCountsASuspension(t *testing.T) {
	watchdog := newWatchdog(t, new(manual), new(store), nil)
	entry, err := watchdog.Register("a", renewal.Grant{TTL: 10 * time.Hour, Sent: time.Now().Add(-5 * time.Hour)})
	require.NoError(t, err)
	require.NoError(t, entry.Update(renewal.Grant{Sent: suspendedSince(t, time.Now(), 4*time.Hour)}, nil))
	assert.InDelta(t, watchdog.Validity(10*time.Hour)-4*time.Hour, time.Until(entry.Deadline()), float64(time.Hour))
}

// suspendedSince returns a reading of both clocks from before a suspension of the host, during
// which the monotonic clock stopped.
func suspendedSince(t *testing.T, now time.Time, d time.Duration) time.Time {
	t.Helper()
	read := now
	*(*uint64)(unsafe.Pointer(&read)) -= uint64(d/time.Second) << 30 // the seconds of the wall clock
	require.Zero(t, now.Sub(read), "the layout of time.Time has changed")
	require.Equal(t, d, now.Round(0).Sub(read.Round(0)))
	return read
}

func TestRenewedReplacesTheEndOfALease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		start := time.Now()
		limited := func() *renewal.Entry[string] {
			entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(time.Minute)})
			require.NoError(t, err)
			return entry
		}
		kept, moved := limited(), limited()
		advance(period / 4)
		require.NoError(t, kept.Update(renewal.Grant{Sent: time.Now()}, nil))
		require.NoError(t, moved.Update(renewal.Grant{Sent: time.Now(), Until: start.Add(2 * time.Minute)}, nil))
		<-kept.Done()
		assert.LessOrEqual(t, time.Since(start), time.Minute+slack)
		assert.True(t, moved.Valid())
		<-moved.Done()
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Minute)
		assert.LessOrEqual(t, time.Since(start), 2*time.Minute+slack)
	})
}

// During a renewal the timer is set to the deadline and follows it.
func TestRenewedDuringARenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		forever := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-forever
			return renewal.Unknown, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		advance(period)
		require.Equal(t, 1, s.count("a"))
		advance(period)
		confirmed := time.Now()
		require.NoError(t, entry.Update(renewal.Grant{Sent: confirmed}, nil))
		<-entry.Done()
		assert.InDelta(t, validity, time.Since(confirmed), float64(slack))
		close(forever)
		synctest.Wait()
	})
}

// A renewal that was sent before an Update may be answered after it.
func TestARenewalNeverMovesTheDeadlineOfRenewedBack(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		answer := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-answer
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		advance(period)
		require.Equal(t, 1, s.count("a"))
		advance(period / 4)
		require.NoError(t, entry.Update(renewal.Grant{Sent: time.Now()}, nil))
		deadline := entry.Deadline()
		close(answer)
		synctest.Wait()
		require.EqualValues(t, 1, watchdog.Stats().Renewed)
		assert.Equal(t, deadline, entry.Deadline())
	})
}

func TestRenewedDoesNotReviveAnEntry(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		stopped := register(t, watchdog, "a")
		stopped.Stop(nil)
		require.Error(t, stopped.Update(renewal.Grant{Sent: time.Now()}, nil))
		assert.False(t, stopped.Valid())
		assert.Zero(t, stopped.Deadline())
	})
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, new(manual), new(store), nil)
		entry := register(t, watchdog, "a")
		time.Sleep(ttl) // no timer has told
		require.Error(t, entry.Update(renewal.Grant{Sent: time.Now()}, nil))
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
	})
}
