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

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

func TestRenewsOnTheGridOfPeriods(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		start := time.Now()
		entry := register(t, dog, "a")
		settle(10 * time.Minute)

		calls := s.seen()
		require.GreaterOrEqual(t, len(calls), 59)
		first := calls[0].at.Sub(start)
		align := period / 100
		assert.GreaterOrEqual(t, first, period/2-align, "the first renewal comes after half a period")
		assert.LessOrEqual(t, first, period+slack, "or later, up to a whole one")
		for i := 1; i < len(calls); i++ {
			gap := calls[i].at.Sub(calls[i-1].at)
			assert.LessOrEqual(t, gap, period+slack, "renewal %d", i)
			assert.GreaterOrEqual(t, gap, period-align, "renewal %d", i)
		}
		assert.True(t, entry.Valid())
		require.NoError(t, entry.Err())
		assert.Equal(t, calls[len(calls)-1].at.Add(life), entry.Deadline())
		assert.Equal(t, "a", entry.Lease())
	})
}

func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		const answerTime = 3 * time.Second
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			time.Sleep(answerTime)
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, nil)
		sent := time.Now()
		time.Sleep(2 * time.Second) // the grant took its time
		entry, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: sent})
		require.NoError(t, err)
		assert.Equal(t, sent.Add(life), entry.Deadline())

		settle(period + answerTime - 2*time.Second)
		calls := s.seen()
		require.Len(t, calls, 1)
		assert.Equal(t, calls[0].at.Add(life), entry.Deadline(), "from the sending of the renewal, not its answer")

		settle(2 * period)
		calls = s.seen()
		assert.LessOrEqual(t, calls[1].at.Sub(calls[0].at), period+slack, "so does the next renewal")
	})
}

// A lock that was handed over comes with what is left of a place in a queue, which
// is less than a period before its deadline.
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
		dog := newDog(t, e, s, nil)
		start := time.Now()
		old := renewal.Grant{TTL: ttl, Sent: start.Add(left - life)}
		for _, lease := range []string{"a", "b", "stopped"} {
			entry, err := dog.Register(lease, old)
			require.NoError(t, err)
			assert.Equal(t, start.Add(left), entry.Deadline())
			if lease == "stopped" {
				time.Sleep(time.Second)
				require.True(t, entry.Stop())
			}
		}
		settle(time.Hour)
		assert.Zero(t, s.count("stopped"), "what is held for a moment only is not renewed")
		assert.Zero(t, dog.Stats().Lost(), "a single failure costs nothing")
		calls := s.seen()
		assert.InDelta(t, (left / 4).Seconds(), calls[0].at.Sub(start).Seconds(), 0.2+slack.Seconds())
		assert.Equal(t, []string{"b"}, calls[1].batch)
		assert.Less(t, calls[1].at.Sub(start), left*3/4, "the second try has its time")
		assert.Equal(t, 1, failures)
	})
}

// A call that hangs takes no lease the time for its second try because others, that
// are due at the same moment, could wait longer.
func TestAHungCallCostsNoneOfItsLeases(t *testing.T) {
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
		dog := newDog(t, &e, s, nil)
		register(t, dog, "long")
		settle(period - time.Second)
		_, err := dog.Register("old", renewal.Grant{TTL: ttl, Sent: time.Now().Add(4*time.Second - life)})
		require.NoError(t, err)
		registerFor(t, dog, "short", 3*time.Second)
		settle(time.Second)
		for range 1000 { // at first all are due
			e.run()
			settle(50 * time.Millisecond)
		}
		assert.Zero(t, dog.Stats().Lost(), "a single failure costs nothing")
		assert.EqualValues(t, 3, dog.Stats().Unknown)
	})
}

// The first renewal of an old grant may hang instead of being refused.
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
			dog := newDog(t, e, s, nil)
			_, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now().Add(left - life)})
			require.NoError(t, err)
			settle(time.Hour)
			assert.Zero(t, dog.Stats().Lost(), "a single failure costs nothing")
			assert.EqualValues(t, 1, dog.Stats().Unknown)
		}
	})
}

func TestBatchesAreNatural(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) { return renewal.Renewed, nil }}
		slow := &slowStore{store: s, each: time.Second}
		dog := newDog(t, e, slow, &renewal.Options{MaxBatch: 50, InFlight: 2, Align: period / 2})
		for i := range 400 { // aligned to half a period: all due at one instant
			register(t, dog, fmt.Sprint(i))
		}
		settle(period)
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
		assert.LessOrEqual(t, len(calls), 12, "slots are filled with all that is due")
		assert.Equal(t, 2, s.most, "no more calls at a time than InFlight")
	})
}

// slowStore takes its time for each call, not for each lease.
type slowStore struct {
	*store
	each time.Duration
}

func (s *slowStore) Renew(ctx context.Context, batch []string, out []renewal.Outcome) error {
	err := s.store.Renew(ctx, batch, out)
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	time.Sleep(s.each)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return err
}

func TestOutcomesBelongToTheirLeases(t *testing.T) {
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
		dog := newDog(t, e, s, &renewal.Options{Align: period / 2})
		entries := map[string]*renewal.Entry[string]{}
		kinds := []string{"ok", "lost", "unknown"}
		for i, k := range rand.Perm(300) {
			name := fmt.Sprintf("%s-%d", kinds[k%3], i)
			entries[name] = register(t, dog, name)
		}
		settle(2*period + time.Second) // two rounds: the unknown ones fail twice
		for name, entry := range entries {
			switch {
			case strings.HasPrefix(name, "lost"):
				assert.Equal(t, renewal.NotOwned, reasonOf(t, entry.Err()), name)
			case strings.HasPrefix(name, "unknown"):
				assert.Equal(t, renewal.Failed, reasonOf(t, entry.Err()), name)
			default:
				assert.NoError(t, entry.Err(), name)
			}
		}
		stats := dog.Stats()
		assert.Equal(t, 100, stats.Held)
		assert.EqualValues(t, 100, stats.NotOwned)
		assert.EqualValues(t, 100, stats.Failed)
		assert.EqualValues(t, 200, stats.Lost())
	})
}

func TestOutcomeOutsideTheEnumIsUnknown(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, &store{answer: func(context.Context, string) (renewal.Outcome, error) { return 77, nil }}, nil)
		entry := register(t, dog, "a")
		settle(2*period + time.Second)
		assert.Equal(t, renewal.Failed, reasonOf(t, entry.Err()))
	})
}

func TestUntilEndsTheLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		now := time.Now()
		fixed, err := dog.Register("fixed", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(life)})
		require.NoError(t, err)
		long, err := dog.Register("long", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(5 * time.Minute)})
		require.NoError(t, err)

		settle(life - 1)
		assert.True(t, fixed.Valid())
		settle(1)
		assert.Equal(t, renewal.Expired, reasonOf(t, fixed.Err()))
		assert.Zero(t, s.count("fixed"), "no renewal can move its deadline")

		settle(5*time.Minute - life - 1)
		assert.True(t, long.Valid())
		renewals := s.count("long")
		settle(1 + slack)
		assert.True(t, closed(long.Done()))
		assert.Equal(t, renewal.Expired, reasonOf(t, long.Err()))
		assert.GreaterOrEqual(t, renewals, 25)
		assert.LessOrEqual(t, renewals, 29, "none is sent once the deadline stands at Until")
	})
}

func TestNoGoroutinePerLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		before := runtime.NumGoroutine()
		for i := range 5000 {
			entry := register(t, dog, fmt.Sprint(i))
			entry.Done()
			entry.AfterFunc(func() {})
		}
		settle(time.Minute)
		assert.Less(t, runtime.NumGoroutine()-before, 10)
		assert.Equal(t, 5000, dog.Stats().Held)
	})
}

// silent is an engine whose timers never fire: what the process sees that was
// paused, until its timers catch up.
type silent struct{}

func (silent) Schedule(time.Duration, schedule.Task) (schedule.Timer, error) {
	return schedule.NewTimer(silent{}, 1), nil
}
func (silent) ResetTimer(uint64, time.Duration) bool { return true }
func (silent) StopTimer(uint64) bool                 { return true }
func (silent) AwaitTimer(uint64)                     {}

func TestValidAndErrNeedNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dog := newDog(t, silent{}, new(store), nil)
		a, b, c := register(t, dog, "a"), register(t, dog, "b"), register(t, dog, "c")
		done := c.Done()
		time.Sleep(life - 1)
		assert.True(t, a.Valid())
		assert.NoError(t, a.Err())
		time.Sleep(time.Nanosecond)
		assert.False(t, a.Valid())
		assert.Equal(t, renewal.Expired, reasonOf(t, a.Err()))
		assert.False(t, b.Stop(), "past its deadline it is lost, not stopped")
		assert.Equal(t, renewal.Expired, reasonOf(t, b.Err()))
		assert.False(t, closed(done), "no timer has told yet")
		assert.True(t, closed(c.Done()), "asking again settles it")
		assert.True(t, closed(done))
		assert.EqualValues(t, 3, dog.Stats().Expired)
	})
}
