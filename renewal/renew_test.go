package renewal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

func TestRenewsOnTheGridOfPeriods(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		start := time.Now()
		entry := register(t, watchdog, "a")
		advance(10 * time.Minute)

		calls := s.seen()
		require.GreaterOrEqual(t, len(calls), 59)
		first := calls[0].at.Sub(start)
		align := period / 100
		assert.GreaterOrEqual(t, first, period/2-align, "the first renewal comes after half a period")
		assert.LessOrEqual(t, first, period+slack, "the first renewal comes within a period")
		for i := 1; i < len(calls); i++ {
			gap := calls[i].at.Sub(calls[i-1].at)
			assert.LessOrEqual(t, gap, period+slack, "renewal %d", i)
			assert.GreaterOrEqual(t, gap, period-align, "renewal %d", i)
		}
		assert.True(t, entry.Valid())
		require.NoError(t, entry.Err())
		assert.Equal(t, calls[len(calls)-1].at.Add(validity), entry.Deadline())
		assert.Equal(t, "a", entry.Lease())
	})
}

func TestTheDeadlineCountsFromTheSending(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		const answerTime = 3 * time.Second
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(answerTime)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		sent := time.Now()
		time.Sleep(2 * time.Second) // the grant took its time
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: sent})
		require.NoError(t, err)
		assert.Equal(t, sent.Add(validity), entry.Deadline())

		advance(period + answerTime - 2*time.Second)
		calls := s.seen()
		require.Len(t, calls, 1)
		assert.Equal(t, calls[0].at.Add(validity), entry.Deadline(), "the deadline counts from the sending")

		advance(2 * period)
		calls = s.seen()
		assert.LessOrEqual(t, calls[1].at.Sub(calls[0].at), period+slack, "the next renewal counts from the sending")
	})
}

// A lock that was handed over starts with the rest of a place in the queue, so its deadline
// is less than a period away.
func TestAnOldGrant(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		const left = 8 * time.Second
		var failures int
		s := new(store)
		s.answer = func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease == "b" && failures == 0 {
				failures++
				return renewal.Unknown, errIO
			}
			return renewal.Renewed, nil
		}
		watchdog := newWatchdog(t, e, s, nil)
		start := time.Now()
		old := renewal.Grant{TTL: ttl, Sent: start.Add(left - validity)}
		for _, lease := range []string{"a", "b", "stopped"} {
			entry, err := watchdog.Register(lease, old)
			require.NoError(t, err)
			assert.Equal(t, start.Add(left), entry.Deadline())
			if lease == "stopped" {
				time.Sleep(time.Second)
				require.True(t, renewal.StopEntry(entry, nil))
			}
		}
		advance(time.Hour)
		assert.Zero(t, s.count("stopped"), "a lease that is released soon is not renewed")
		assert.Zero(t, watchdog.Stats().Lost(), "a single failure loses no lease")
		calls := s.seen()
		assert.InDelta(t, (left / 4).Seconds(), calls[0].at.Sub(start).Seconds(), 0.2+slack.Seconds())
		assert.Equal(t, []string{"b"}, calls[1].batch)
		assert.Less(t, calls[1].at.Sub(start), left*3/4, "the second attempt is in time")
		assert.Equal(t, 1, failures)
	})
}

// If a call hangs, every lease of its batch has time for a second attempt, even if others
// that are due at the same instant could wait longer.
func TestAHungCallLosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards tried
		tried := map[string]bool{}
		s := renewerFunc(func(ctx context.Context, batch []string, out []renewal.Outcome) error {
			mu.Lock()
			fresh := !tried[batch[0]]
			for i, lease := range batch {
				tried[lease] = true
				out[i] = renewal.Renewed
			}
			mu.Unlock()
			if fresh {
				clear(out)
				<-ctx.Done()
			}
			return ctx.Err()
		})
		var e manual
		watchdog := newWatchdog(t, &e, s, nil)
		register(t, watchdog, "long")
		advance(period - time.Second)
		_, err := watchdog.Register("old", renewal.Grant{TTL: ttl, Sent: time.Now().Add(4*time.Second - validity)})
		require.NoError(t, err)
		registerFor(t, watchdog, "short", 3*time.Second)
		advance(time.Second)
		for range 1000 { // at first all are due
			e.run()
			advance(50 * time.Millisecond)
		}
		assert.Zero(t, watchdog.Stats().Lost(), "a single failure loses no lease")
		assert.EqualValues(t, 3, watchdog.Stats().Unknown)
	})
}

// The first renewal of an old grant hangs.
func TestAnOldGrantWhoseRenewalHangs(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		for _, left := range []time.Duration{8 * time.Second, 4*period/3 + 100*time.Millisecond} { // a period, when it is sent
			var calls atomic.Int64
			s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
				if calls.Add(1) == 1 {
					return hang(ctx, lease)
				}
				time.Sleep(250 * time.Millisecond)
				return renewal.Renewed, nil
			}}
			watchdog := newWatchdog(t, e, s, nil)
			_, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now().Add(left - validity)})
			require.NoError(t, err)
			advance(time.Hour)
			assert.Zero(t, watchdog.Stats().Lost(), "a single failure loses no lease")
			assert.EqualValues(t, 1, watchdog.Stats().Unknown)
		}
	})
}

func TestBatchesContainAllDueLeases(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(time.Second / 50)
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 50, InFlight: 2, Align: period / 2})})
		for i := range 400 { // aligned to half a period: all due at one instant
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(period)
		calls := s.seen()
		seen := map[string]bool{}
		for _, c := range calls {
			assert.LessOrEqual(t, len(c.batch), 50)
			for _, l := range c.batch {
				assert.False(t, seen[l], "renewed twice in one period")
				seen[l] = true
			}
		}
		assert.Len(t, seen, 400)
		assert.LessOrEqual(t, len(calls), 12, "a batch contains all due leases")
		assert.Equal(t, 2, s.most, "at most InFlight concurrent calls")
	})
}

func TestOutcomesApplyToTheirLeases(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			switch {
			case strings.HasPrefix(lease, "lost"):
				return renewal.Lost, nil
			case strings.HasPrefix(lease, "unknown"):
				return renewal.Unknown, errIO
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: period / 2})})
		entries := map[string]*renewal.Entry[string]{}
		kinds := []string{"ok", "lost", "unknown"}
		for i, k := range rand.Perm(300) {
			name := fmt.Sprintf("%s-%d", kinds[k%3], i)
			entries[name] = register(t, watchdog, name)
		}
		advance(2*period + time.Second) // two rounds: the unknown ones fail twice
		for name, entry := range entries {
			switch {
			case strings.HasPrefix(name, "lost"):
				assert.Equal(t, renewal.ReasonNotOwned, reasonOf(t, entry.Err()), name)
			case strings.HasPrefix(name, "unknown"):
				assert.Equal(t, renewal.ReasonFailed, reasonOf(t, entry.Err()), name)
			default:
				assert.NoError(t, entry.Err(), name)
			}
		}
		stats := watchdog.Stats()
		assert.EqualValues(t, len(s.seen()), stats.Batches)
		assert.Equal(t, 100, stats.Held)
		assert.EqualValues(t, 100, stats.NotOwned)
		assert.EqualValues(t, 100, stats.Failed)
		assert.EqualValues(t, 200, stats.Lost())
	})
}

func TestAnUndefinedOutcomeIsUnknown(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: func(context.Context, string) (renewal.Outcome, error) { return 77, nil }}, nil)
		entry := register(t, watchdog, "a")
		advance(2*period + time.Second)
		assert.Equal(t, renewal.ReasonFailed, reasonOf(t, entry.Err()))
	})
}

func TestUntilEndsTheLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		now := time.Now()
		fixed, err := watchdog.Register("fixed", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(validity)})
		require.NoError(t, err)
		long, err := watchdog.Register("long", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(5 * time.Minute)})
		require.NoError(t, err)

		advance(validity - 1)
		assert.True(t, fixed.Valid())
		advance(1)
		assert.Equal(t, renewal.ReasonLimitReached, reasonOf(t, fixed.Err()))
		assert.Zero(t, s.count("fixed"), "no renewal can move its deadline")

		advance(5*time.Minute - validity - 1)
		assert.True(t, long.Valid())
		renewals := s.count("long")
		advance(1 + slack)
		assert.True(t, closed(long.Done()))
		assert.Equal(t, renewal.ReasonLimitReached, reasonOf(t, long.Err()))
		assert.GreaterOrEqual(t, renewals, 25)
		assert.LessOrEqual(t, renewals, 29, "no renewal is sent once the deadline is Until")
	})
}

func TestNoGoroutinePerLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		before := runtime.NumGoroutine()
		for i := range 1000 {
			entry := register(t, watchdog, fmt.Sprint(i))
			entry.Done()
			entry.AfterFunc(func() {})
		}
		advance(time.Minute)
		assert.Less(t, runtime.NumGoroutine()-before, 10)
		assert.Equal(t, 1000, watchdog.Stats().Held)
	})
}

// silent is an engine whose timers never fire, as in a process right after a pause.
type silent struct{}

func (silent) Schedule(time.Duration, schedule.Task) (schedule.Timer, error) {
	return schedule.NewTimer(silent{}, 1), nil
}
func (silent) ResetTimer(uint64, time.Duration) bool  { return true }
func (silent) StopTimer(uint64) bool                  { return true }
func (silent) AwaitTimer(uint64)                      {}
func (silent) TimerDeadline(uint64) (time.Time, bool) { return time.Time{}, false }

func TestValidAndErrNeedNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, silent{}, new(store), nil)
		a, b, c := register(t, watchdog, "a"), register(t, watchdog, "b"), register(t, watchdog, "c")
		done := c.Done()
		time.Sleep(validity - 1)
		assert.True(t, a.Valid())
		assert.NoError(t, a.Err())
		time.Sleep(time.Nanosecond)
		assert.False(t, a.Valid())
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, a.Err()))
		assert.False(t, renewal.StopEntry(b, nil), "the lease is past its deadline")
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, b.Err()))
		assert.False(t, closed(done), "no timer has fired")
		assert.True(t, closed(c.Done()), "Done ends an entry past its deadline")
		assert.True(t, closed(done))
		assert.EqualValues(t, 3, watchdog.Stats().Expired)
	})
}
