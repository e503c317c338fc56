package renewal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	longTTL       = 10 * ttl
	longValidity  = 10 * validity
	shortTTL      = ttl / 3
	shortValidity = validity / 3
)

// update reports a renewal that was sent just now, with another TTL. The lease gets the name
// of it.
func update(t *testing.T, e *renewal.Entry[string], name string, ttl time.Duration) {
	t.Helper()
	require.NoError(t, e.Update(renewal.Grant{TTL: ttl, Sent: time.Now()}, func(before string) string { return before + " " + name }))
}

func TestUpdateToALongerTTL(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: -1})})
		entry := register(t, watchdog, "a")
		advance(period / 4)
		sent := time.Now()
		update(t, entry, "long", longTTL)
		assert.Equal(t, "a long", entry.Lease())
		assert.Equal(t, sent.Add(longValidity), entry.Deadline())
		advance(longTTL/3 - 2*slack - 10*time.Millisecond)
		assert.Empty(t, s.seen(), "the next renewal is a new period after the request")
		advance(3*slack + 20*time.Millisecond)
		assert.Equal(t, 1, s.count("a long"), "renewals send the changed lease")
		advance(time.Hour)
		assert.True(t, entry.Valid())
		assert.Zero(t, s.count("a"))
	})
}

// The deadline that was confirmed before stays. Renewals follow the new TTL at once.
func TestUpdateToAShorterTTL(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease == "a" {
				return renewal.Renewed, nil
			}
			return renewal.Unknown, errIO
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Failures: -1}, seam.Tuning{Align: -1})})
		entry := register(t, watchdog, "a")
		advance(period / 4)
		before, sent := entry.Deadline(), time.Now()
		update(t, entry, "short", shortTTL)
		assert.Equal(t, before, entry.Deadline())
		for s.count("a short") == 0 {
			advance(time.Millisecond)
		}
		assert.InDelta(t, shortTTL/3, time.Since(sent), float64(slack+5*time.Millisecond))
		<-entry.Done()
		assert.InDelta(t, before.Sub(sent), time.Since(sent), float64(slack))
	})
}

// A short lease that is renewed is valid for the short TTL after its last renewal.
func TestUpdateToAShorterTTLShortensLaterRenewals(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		failAfter := time.Now().Add(time.Minute)
		var last time.Time
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			if time.Now().After(failAfter) {
				return renewal.Unknown, errIO
			}
			last = time.Now()
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		update(t, entry, "short", shortTTL)
		<-entry.Done()
		assert.InDelta(t, shortValidity, time.Since(last), float64(slack))
	})
}

// A renewal that is under way when the TTL grows was sent with the old one. Its answer must
// not count for more.
func TestUpdateDuringARenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		answer := make(chan struct{})
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease != "a" {
				return renewal.Unknown, errIO
			}
			<-answer
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		sent := time.Now()
		for len(s.seen()) == 0 {
			advance(time.Millisecond)
		}
		advance(time.Second)
		require.NoError(t, entry.Update(renewal.Grant{TTL: longTTL, Sent: sent}, func(string) string { return "long" }))
		require.Equal(t, sent.Add(longValidity), entry.Deadline())
		close(answer)
		synctest.Wait()
		require.EqualValues(t, 1, watchdog.Stats().Renewed)
		assert.Equal(t, sent.Add(longValidity), entry.Deadline(), "the answer counts with the TTL that was sent")
		<-entry.Done()
		assert.InDelta(t, longValidity, time.Since(sent), float64(slack))
	})
}

func TestUpdateReplacesTheEndOfALease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		start := time.Now()
		fixed, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(validity)})
		require.NoError(t, err)
		advance(ttl / 2)
		sent := time.Now()
		require.NoError(t, fixed.Update(renewal.Grant{TTL: longTTL, Sent: sent, Until: sent.Add(longValidity)}, func(l string) string { return l }))
		<-fixed.Done()
		assert.InDelta(t, longValidity, time.Since(sent), float64(slack))
		assert.Empty(t, s.seen())
	})
}

func TestUpdateKeepsTheEndOfALease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		start := time.Now()
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(time.Minute)})
		require.NoError(t, err)
		update(t, entry, "long", longTTL)
		<-entry.Done()
		assert.InDelta(t, time.Minute, time.Since(start), float64(slack))
	})
}

func TestUpdateRefusesBadGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, new(manual), new(store), nil)
		entry := register(t, watchdog, "a")
		deadline := entry.Deadline()
		for text, g := range map[string]renewal.Grant{
			"Grant.TTL must be positive":          {TTL: -1, Sent: time.Now()},
			"Grant.Sent is not set":               {TTL: ttl},
			"Grant.TTL: TTL of 1ms is too short":  {TTL: time.Millisecond, Sent: time.Now()},
			"Grant.Until is not after Grant.Sent": {TTL: ttl, Sent: time.Now(), Until: time.Now()},
		} {
			require.ErrorContains(t, entry.Update(g, func(string) string { panic("changed") }), text)
		}
		assert.Equal(t, deadline, entry.Deadline())
		entry.Stop(nil)
		require.ErrorIs(t, entry.Update(renewal.Grant{TTL: ttl, Sent: time.Now()}, func(string) string { panic("changed") }), renewal.ErrStopped)
	})
}

func TestLostByARequestOfTheCaller(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		losses := make(chan renewal.LostInfo, 1)
		watchdog := newWatchdog(t, e, new(store), &renewal.Options{Hooks: &renewal.Hooks{Lost: func(i renewal.LostInfo) { losses <- i }}})
		entry := register(t, watchdog, "a")
		require.True(t, entry.ReportLost(errIO))
		<-entry.Done()
		assert.Equal(t, renewal.ReasonNotOwned, reasonOf(t, entry.Err()))
		require.ErrorIs(t, entry.Err(), errIO)
		assert.EqualValues(t, 1, watchdog.Stats().Lost())
		assert.Equal(t, "a", (<-losses).Lease)
		assert.False(t, entry.ReportLost(errIO), "it has ended before")
		assert.False(t, renewal.StopEntry(entry, nil))
	})
}

// Replace keeps the deadline. Later renewals count with the TTL of the lease that it was given.
func TestReplaceWithAnotherTTL(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		renewed, calls := make(chan time.Time, 1), 0
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			calls++
			if calls > 1 {
				return renewal.Unknown, errIO
			}
			renewed <- time.Now()
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		first := register(t, watchdog, "first")
		update(t, first, "long", longTTL)
		deadline := first.Deadline()
		second, err := first.Replace("second", ttl)
		require.NoError(t, err)
		assert.Equal(t, deadline, second.Deadline())
		last := <-renewed
		synctest.Wait()
		assert.False(t, last.Add(validity).After(second.Deadline()))
		<-second.Done()
		assert.InDelta(t, max(validity, deadline.Sub(last)), time.Since(last), float64(slack))
	})
}
