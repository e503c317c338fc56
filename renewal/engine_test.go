package renewal_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// block blocks the engine with a task.
func block(t *testing.T, e engine, d time.Duration) {
	t.Helper()
	_, err := e.Schedule(0, taskFunc(func(schedule.Timer) { time.Sleep(d) }))
	require.NoError(t, err)
}

func logTo(log *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(log, nil)) }

// Holders are told in time while the engine is blocked: before a store whose clock is 1 %
// fast can grant the lease again.
func TestABlockedEngineDelaysNoNotice(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, 10 * time.Minute} {
		for _, newEngine := range []func() engine{
			func() engine { w, _ := wheel.New(&wheel.Options{Tick: time.Millisecond}); return w },
			func() engine { return heap(t) },
		} {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				defer e.Close()
				var log strings.Builder
				s := new(store)
				watchdog := newWatchdog(t, e, s, &renewal.Options{Logger: logTo(&log)})
				entry := registerFor(t, watchdog, "a", ttl)
				advance(10 * ttl)
				require.NoError(t, entry.Err())
				block(t, e, time.Hour) // may let one more renewal pass
				deadline := entry.Deadline()
				require.NotZero(t, deadline)
				<-entry.Done()
				sent := s.seen()[len(s.seen())-1].at
				assert.GreaterOrEqual(t, time.Now(), deadline)
				assert.Less(t, time.Since(sent), ttl-ttl/100, "the lease can end on a server with a fast clock")
				assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
				assert.EqualValues(t, 1, watchdog.Stats().Overdue)
				advance(time.Millisecond)
				assert.Contains(t, log.String(), "timer engine is late")
				assert.Contains(t, log.String(), "leasesEndedByWatchdog=1")
				advance(time.Hour)
			})
		}
	}
}

// A late engine is reported once a minute, even if no lease is lost.
func TestALateEngineIsReported(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var log strings.Builder
		watchdog := newWatchdog(t, e, new(store), &renewal.Options{Logger: logTo(&log)})
		entry := register(t, watchdog, "a")
		advance(10 * time.Minute)
		assert.Empty(t, log.String(), "a punctual engine is not reported")
		const count = 20
		start := time.Now()
		for range count { // each renewal is late
			block(t, e, period+5*time.Second)
			advance(period + 5*time.Second)
		}
		advance(time.Second)
		require.NoError(t, entry.Err())
		assert.Zero(t, watchdog.Stats().Overdue)
		lines := strings.Count(log.String(), "timer engine is late")
		assert.GreaterOrEqual(t, lines, 2)
		assert.LessOrEqual(t, lines, int(time.Since(start)/time.Minute)+1)
		assert.Contains(t, log.String(), "engine=*")
	})
}

// Closing the engine ends all entries at once, and Close returns their leases.
func TestAClosedEngineEndsEntriesAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var log strings.Builder
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Logger: logTo(&log)})
		var entries []*renewal.Entry[string]
		for _, lease := range []string{"a", "b", "stopped"} {
			entries = append(entries, register(t, watchdog, lease))
		}
		entries = append(entries, registerFor(t, watchdog, "not due", time.Hour))
		advance(period) // renewals are under way
		require.NotEmpty(t, s.seen())
		told := make(chan struct{})
		entries[0].AfterFunc(func() { close(told) })
		done := entries[1].Done()
		assert.True(t, renewal.StopEntry(entries[2], nil))
		e.Close()
		<-told
		assert.True(t, closed(done))
		close(release)
		advance(0)
		for _, entry := range []*renewal.Entry[string]{entries[0], entries[1], entries[3]} {
			require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
			require.ErrorIs(t, entry.Err(), schedule.ErrClosed)
			assert.False(t, entry.Valid())
			assert.False(t, renewal.StopEntry(entry, nil))
		}
		assert.Equal(t, 1, strings.Count(log.String(), "engine was closed"))
		assert.Zero(t, watchdog.Stats().Lost())
		_, err := watchdog.Register("late", renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.Zero(t, watchdog.Stats().Held)
		leases, err := watchdog.Close(context.Background())
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"a", "b", "not due"}, leases, "the store may still hold them")
	})
}

// Leases with many different deadlines, on an engine that runs no timers.
func TestAllOverdueEntriesEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, new(manual), new(store), nil)
		for i := range 2000 {
			ttl := 100*time.Millisecond + time.Duration(i*i)*time.Millisecond
			sent := time.Now()
			entry := registerFor(t, watchdog, "a", ttl)
			validity := watchdog.Validity(ttl)
			entry.AfterFunc(func() {
				assert.GreaterOrEqual(t, time.Since(sent), validity)
				assert.Less(t, time.Since(sent), ttl-ttl/100)
			})
			if i%10 == 0 {
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
		}
		advance(2 * time.Hour)
		assert.EqualValues(t, 2000, watchdog.Stats().Overdue)
		assert.Zero(t, watchdog.Stats().Held)
	})
}

// Leases are refused on a wheel whose tick is longer than any lease.
func TestATickLongerThanAllLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tick := range []time.Duration{1 << 61, 1<<62 + 1, 1<<63 - 1} {
			w, err := wheel.New(&wheel.Options{Tick: tick})
			require.NoError(t, err)
			watchdog := newWatchdog(t, w, new(store), nil)
			require.ErrorContains(t, watchdog.CheckTTL(time.Hour), "too short")
			_, err = watchdog.Register("a", renewal.Grant{TTL: time.Hour, Sent: time.Now()})
			require.ErrorContains(t, err, "too short")
			_, err = watchdog.Register("a", renewal.Grant{TTL: time.Hour, Sent: time.Now(), Until: time.Now().Add(time.Second)})
			require.Error(t, err)
			w.Close()
		}
	})
}
