package renewal_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestASingleErrorIsTolerated(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var n atomic.Int64
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			if n.Add(1)%2 == 0 { // every second renewal fails, never two in a row
				return renewal.Unknown, errIO
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		advance(10 * time.Minute)
		require.NoError(t, entry.Err())
		assert.True(t, entry.Valid())

		calls := s.seen()
		require.Greater(t, len(calls), 50)
		for i := 1; i < len(calls); i++ {
			gap := calls[i].at.Sub(calls[i-1].at)
			assert.GreaterOrEqual(t, gap, period-period/200, "no quick retry, which would fail in the same outage")
			assert.LessOrEqual(t, gap, period+slack)
		}
		assert.InDelta(t, len(calls)/2, watchdog.Stats().Unknown, 1)
	})
}

// A lease whose last renewal failed has the earliest deadline, so it is renewed before leases
// that became due earlier.
func TestAFailedLeaseIsRetriedFirst(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var failed atomic.Bool
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			time.Sleep(2 * time.Second)
			if lease == "a" && failed.CompareAndSwap(false, true) {
				return renewal.Unknown, errIO
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1, InFlight: 1, Align: period / 2})})
		start := time.Now()
		register(t, watchdog, "a") // renewed after 5 s, in vain; the next try is 10 s later
		advance(period/2 + time.Second)
		for i := range 9 { // all due after 10 s, renewed one after another
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(ttl)
		for _, c := range s.seen()[1:] {
			if c.batch[0] == "a" {
				assert.LessOrEqual(t, c.at.Sub(start), 17*time.Second+slack)
				return
			}
		}
		assert.Fail(t, "no second attempt")
	})
}

func TestTheSecondFailureInARowIsALoss(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		done := entry.Done()
		<-done
		calls := s.seen()
		require.Len(t, calls, 2)
		assert.Equal(t, calls[1].at, time.Now(), "the holder is told at the second failure")
		err := entry.Err()
		assert.Equal(t, renewal.ReasonFailed, reasonOf(t, err))
		require.ErrorIs(t, err, errIO, "the error of the store")
		assert.False(t, entry.Valid())
		assert.Zero(t, entry.Deadline())
		assert.False(t, renewal.StopEntry(entry, nil))
		advance(time.Hour)
		assert.Len(t, s.seen(), 2, "no renewal after the loss")
		assert.Equal(t, err, entry.Err(), "Err always returns the same error")
	})
}

func TestFailures(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		for _, tc := range []struct {
			failures, calls int
			reason          renewal.Reason
		}{
			{1, 1, renewal.ReasonFailed},
			{2, 2, renewal.ReasonFailed},
			{3, 3, renewal.ReasonExpired}, // the deadline comes before a third can fail, or with it
			{-1, 3, renewal.ReasonExpired},
		} {
			s := &store{answer: failing}
			watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: tc.failures}})
			sent := time.Now()
			entry := register(t, watchdog, "a")
			<-entry.Done()
			told := time.Since(sent)
			if reason := reasonOf(t, entry.Err()); tc.failures != 3 {
				assert.Equal(t, tc.reason, reason, "Failures %d", tc.failures)
			}
			assert.LessOrEqual(t, told, validity+slack)
			if tc.failures == -1 {
				assert.GreaterOrEqual(t, told, validity, "the lease ends at its deadline")
			}
			assert.LessOrEqual(t, len(s.seen()), max(tc.calls, 3))
			require.ErrorIs(t, entry.Err(), errIO)
		}
	})
}

func TestLostIsReportedAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) { return renewal.Lost, nil }}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		entry := register(t, watchdog, "a")
		<-entry.Done()
		require.Len(t, s.seen(), 1)
		assert.Equal(t, s.seen()[0].at, time.Now())
		assert.Equal(t, renewal.ReasonNotOwned, reasonOf(t, entry.Err()))
	})
}

// The store hangs during all calls that are allowed. Every holder is told before its TTL ends
// on the server, even if its lease was never sent.
func TestAHungStoreDelaysNoNotice(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		forever := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-forever // ctx is not looked at
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Failures: -1}, seam.Tuning{MaxBatch: 1, InFlight: 1})})
		sent := time.Now()
		var mu sync.Mutex // guards told
		var told []time.Duration
		var entries []*renewal.Entry[string]
		for i := range 5 {
			entry := register(t, watchdog, fmt.Sprint(i))
			entries = append(entries, entry)
			entry.AfterFunc(func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, time.Since(sent))
			})
		}
		advance(validity - 1)
		for _, entry := range entries {
			assert.True(t, entry.Valid())
		}
		advance(1 + slack)
		require.Len(t, told, 5)
		for i, entry := range entries {
			assert.Less(t, told[i], ttl)
			assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
		}
		require.Len(t, s.seen(), 1, "the other leases were never sent")

		close(forever)
		advance(time.Hour)
		for _, entry := range entries {
			assert.False(t, entry.Valid(), "a late answer does not revive the lease")
			assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
		}
		assert.Len(t, s.seen(), 1, "a lost lease is not sent")
	})
}

// A short lease does not shorten the call for the other leases of its batch: a store that
// answers in 700 ms loses the leases of 1 s, but not those of 30 s.
func TestAShortLeaseDoesNotShortenTheCall(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		slow := renewerFunc(func(ctx context.Context, _ []string, out []renewal.Outcome) error {
			select {
			case <-time.After(700 * time.Millisecond):
				for i := range out {
					out[i] = renewal.Renewed
				}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		// With one call at a time, short and long leases share batches.
		watchdog := newWatchdog(t, e, slow, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Failures: 1}, seam.Tuning{InFlight: 1})})
		var long []*renewal.Entry[string]
		for i := range 100 {
			long = append(long, register(t, watchdog, fmt.Sprint("long", i)))
		}
		for i := range 600 {
			registerFor(t, watchdog, fmt.Sprint("short", i), time.Second)
			advance(100 * time.Millisecond)
		}
		for _, entry := range long {
			assert.NoError(t, entry.Err())
		}
		assert.Positive(t, watchdog.Stats().Lost(), "the short leases are lost")
	})
}

// A due lease is not sent after its deadline, even if its timer has not fired.
func TestAnExpiredLeaseIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		engine := new(manual)
		watchdog := newWatchdog(t, engine, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1, InFlight: 1})})
		entries := []*renewal.Entry[string]{register(t, watchdog, "a"), register(t, watchdog, "b")}
		time.Sleep(period)
		engine.run()
		advance(2 * time.Millisecond) // the linger time
		require.Equal(t, 1, watchdog.Stats().Due)
		time.Sleep(validity - period)
		close(release)
		synctest.Wait()
		assert.Len(t, s.seen(), 1)
		for _, entry := range entries {
			assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
		}
	})
}

type renewerFunc func(ctx context.Context, batch []string, out []renewal.Outcome) error

func (f renewerFunc) Renew(ctx context.Context, batch []string, out []renewal.Outcome) error {
	return f(ctx, batch, out)
}

func TestACallEndsAtItsTimeout(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		for _, tc := range []struct{ timeout, want time.Duration }{
			{0, period}, // the longest period in the batch
			{3 * time.Second, 3 * time.Second},
			{time.Hour, 0}, // the latest deadline
		} {
			var ended []time.Time
			s := &store{}
			s.answer = func(ctx context.Context, lease string) (renewal.Outcome, error) {
				outcome, err := hang(ctx, lease)
				ended = append(ended, time.Now())
				return outcome, err
			}
			watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: renewal.Policy{Timeout: tc.timeout}})
			sent := time.Now()
			register(t, watchdog, "a")
			advance(validity + time.Second)
			require.NotEmpty(t, ended)
			if tc.want == 0 {
				assert.Equal(t, sent.Add(validity), ended[0])
			} else {
				assert.Equal(t, tc.want, ended[0].Sub(s.seen()[0].at))
			}
		}
	})
}

// An outage of 15 s never loses a lease of 30 s, whenever it begins. The request under way is
// answered when the outage ends.
func TestAnOutageOfHalfATTLLosesNoLease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		for phase := range 40 {
			begin := time.Now().Add(30*time.Second + time.Duration(phase)*period/40)
			end := begin.Add(ttl / 2)
			s := &store{answer: func(ctx context.Context, _ string) (renewal.Outcome, error) {
				if now := time.Now(); now.Before(begin) || !now.Before(end) {
					return renewal.Renewed, nil
				}
				select {
				case <-time.After(time.Until(end)):
					return renewal.Renewed, nil
				case <-ctx.Done():
					return renewal.Unknown, ctx.Err()
				}
			}}
			watchdog := newWatchdog(t, e, s, nil)
			entry := register(t, watchdog, "a")
			advance(3 * time.Minute)
			assert.NoError(t, entry.Err(), "phase %d", phase)
			entry.Stop(nil)
		}
	})
}

func TestAnAnswerAfterTheDeadlineDoesNotRevive(t *testing.T) {
	// The engine fires no timer, so only the outcome can notice the deadline.
	for outcome, said := range map[renewal.Outcome]error{renewal.Renewed: nil, renewal.Unknown: errIO} {
		synctest.Test(t, func(t *testing.T) {
			fire := make(chan struct{})
			s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
				<-fire
				return outcome, said
			}}
			engine := new(manual)
			watchdog := newWatchdog(t, engine, s, nil)
			entry := register(t, watchdog, "a")
			time.Sleep(period)
			engine.run()
			advance(2 * time.Millisecond) // the linger time
			require.Len(t, s.seen(), 1)
			time.Sleep(validity - period)
			close(fire)
			synctest.Wait()
			assert.False(t, entry.Valid())
			assert.Equal(t, renewal.ReasonExpired, reasonOf(t, entry.Err()))
			if said != nil {
				assert.ErrorIs(t, entry.Err(), said, "the last error of the store")
			}
		})
	}
}

// The context of a call of Renew is not that of the holder.
func TestALossMatchesNoErrorOfAContext(t *testing.T) {
	for name, answer := range map[string]func(context.Context, string) (renewal.Outcome, error){
		"error of the ctx": hang,
		"cause of the ctx": func(ctx context.Context, _ string) (renewal.Outcome, error) {
			<-ctx.Done()
			return renewal.Unknown, context.Cause(ctx)
		},
		"of its own": func(context.Context, string) (renewal.Outcome, error) {
			return renewal.Unknown, fmt.Errorf("%w: %w: %w", errIO, context.DeadlineExceeded, context.Canceled)
		},
	} {
		onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
			entry := register(t, newWatchdog(t, e, &store{answer: answer}, nil), "a")
			advance(ttl)
			err := entry.Err()
			require.ErrorIs(t, err, renewal.ErrLost, name)
			require.NotErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled, name)
			if name == "of its own" {
				require.ErrorIs(t, err, errIO, name)
			} else {
				require.ErrorContains(t, err, "renewal: lease lost: ", name)
			}
		})
	}
}

// A lease that ends when its grant says so is told apart from a failure, also by Stats.
func TestTheEndOfTheGrantIsItsOwnReason(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		healthy, silent := newWatchdog(t, e, new(store), nil), newWatchdog(t, e, &store{answer: failing}, &renewal.Options{Policy: renewal.Policy{Failures: -1}})
		now := time.Now()
		reason := func(w *renewal.Watchdog[string], until time.Time) renewal.Reason {
			entry, err := w.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: until})
			require.NoError(t, err)
			<-entry.Done()
			now = time.Now()
			return reasonOf(t, entry.Err())
		}
		assert.Equal(t, renewal.ReasonLimitReached, reason(healthy, now.Add(time.Minute)))
		assert.Equal(t, renewal.ReasonLimitReached, reason(healthy, now.Add(time.Second)))
		assert.Equal(t, renewal.ReasonExpired, reason(silent, now.Add(time.Minute)), "no renewal was answered")
		assert.Equal(t, renewal.ReasonExpired, reason(silent, time.Time{}))

		var lost *renewal.LostError
		entry, err := healthy.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(time.Second)})
		require.NoError(t, err)
		<-entry.Done()
		require.ErrorAs(t, entry.Err(), &lost)
		assert.InDelta(t, margin, lost.Left, float64(slack), "how long the holder has to stop")

		assert.EqualValues(t, 3, healthy.Stats().LimitReached)
		assert.Zero(t, healthy.Stats().Lost())
		assert.Zero(t, silent.Stats().LimitReached)
		assert.EqualValues(t, 2, silent.Stats().Lost())
	})
}
