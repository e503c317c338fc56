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
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		settle(10 * time.Minute)
		require.NoError(t, entry.Err())
		assert.True(t, entry.Valid())

		calls := s.seen()
		require.Greater(t, len(calls), 50)
		for i := 1; i < len(calls); i++ {
			gap := calls[i].at.Sub(calls[i-1].at)
			assert.GreaterOrEqual(t, gap, period-period/200, "no quick retry, which would burn the second try in the same outage")
			assert.LessOrEqual(t, gap, period+slack)
		}
		assert.InDelta(t, len(calls)/2, dog.Stats().Unknown, 1)
	})
}

// A lease whose last renewal failed has the earliest deadline, so it does not wait
// behind those that became due before it.
func TestALeaseThatFailedGoesFirst(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var failed atomic.Bool
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			time.Sleep(2 * time.Second)
			if lease == "a" && failed.CompareAndSwap(false, true) {
				return renewal.Unknown, errIO
			}
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{MaxBatch: 1, InFlight: 1, Align: period / 2})
		start := time.Now()
		register(t, dog, "a") // renewed after 5 s, in vain; the next try is 10 s later
		settle(period/2 + time.Second)
		for i := range 9 { // all due after 10 s, renewed one after another
			register(t, dog, fmt.Sprint(i))
		}
		settle(ttl)
		for _, c := range s.seen()[1:] {
			if c.batch[0] == "a" {
				assert.LessOrEqual(t, c.at.Sub(start), 17*time.Second+slack)
				return
			}
		}
		assert.Fail(t, "never tried again")
	})
}

func TestTheSecondErrorInARowTellsTheHolder(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: failing}
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		done := entry.Done()
		<-done
		calls := s.seen()
		require.Len(t, calls, 2)
		assert.Equal(t, calls[1].at, time.Now(), "told at the second failure")
		err := entry.Err()
		assert.Equal(t, renewal.Failed, reasonOf(t, err))
		require.ErrorIs(t, err, errIO, "with what the store said")
		assert.False(t, entry.Valid())
		assert.Zero(t, entry.Deadline())
		assert.False(t, entry.Stop())
		settle(time.Hour)
		assert.Len(t, s.seen(), 2, "no renewal after the loss")
		assert.Equal(t, err, entry.Err(), "the answer never changes")
	})
}

func TestFailures(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		for _, tc := range []struct {
			failures, calls int
			reason          renewal.Reason
		}{
			{1, 1, renewal.Failed},
			{2, 2, renewal.Failed},
			{3, 3, renewal.Expired}, // the deadline comes before a third can fail, or with it
			{-1, 3, renewal.Expired},
		} {
			s := &store{answer: failing}
			dog := newDog(t, e, s, &renewal.Options{Failures: tc.failures})
			sent := time.Now()
			entry := register(t, dog, "a")
			<-entry.Done()
			told := time.Since(sent)
			if reason := reasonOf(t, entry.Err()); tc.failures != 3 {
				assert.Equal(t, tc.reason, reason, "Failures %d", tc.failures)
			}
			assert.LessOrEqual(t, told, life+slack)
			if tc.failures == -1 {
				assert.GreaterOrEqual(t, told, life, "only the deadline tells")
			}
			assert.LessOrEqual(t, len(s.seen()), max(tc.calls, 3))
			require.ErrorIs(t, entry.Err(), errIO)
		}
	})
}

func TestAnAuthoritativeRefusalTellsAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) { return renewal.Lost, nil }}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		<-entry.Done()
		require.Len(t, s.seen(), 1)
		assert.Equal(t, s.seen()[0].at, time.Now())
		assert.Equal(t, renewal.NotOwned, reasonOf(t, entry.Err()))
	})
}

// A store that hangs with every slot taken: each holder is told before its TTL
// would have ended on the server, those whose renewal never got a slot too.
func TestAHungStoreDelaysNoNews(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		forever := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-forever // ctx is not looked at
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{MaxBatch: 1, InFlight: 1, Failures: -1})
		sent := time.Now()
		var mu sync.Mutex // guards told
		var told []time.Duration
		var entries []*renewal.Entry[string]
		for i := range 5 {
			entry := register(t, dog, fmt.Sprint(i))
			entries = append(entries, entry)
			entry.AfterFunc(func() {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, time.Since(sent))
			})
		}
		settle(life - 1)
		for _, entry := range entries {
			assert.True(t, entry.Valid())
		}
		settle(1 + slack)
		require.Len(t, told, 5)
		for i, entry := range entries {
			assert.Less(t, told[i], ttl)
			assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		}
		require.Len(t, s.seen(), 1, "the others never got a slot")

		close(forever)
		settle(time.Hour)
		for _, entry := range entries {
			assert.False(t, entry.Valid(), "a late answer does not revive")
			assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		}
		assert.Len(t, s.seen(), 1, "and nothing is sent for a lost lease")
	})
}

// Batch mates of a short lease keep the time that they have: a store that answers
// in 700 ms loses the leases of 1 s, not those of 30 s.
func TestAShortLeaseTakesNoTimeFromItsBatchMates(t *testing.T) {
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
		// One slot, so that short and long leases share batches.
		dog := newDog(t, e, slow, &renewal.Options{InFlight: 1, Failures: 1})
		var long []*renewal.Entry[string]
		for i := range 100 {
			long = append(long, register(t, dog, fmt.Sprint("long", i)))
		}
		for i := range 600 {
			registerFor(t, dog, fmt.Sprint("short", i), time.Second)
			settle(100 * time.Millisecond)
		}
		for _, entry := range long {
			assert.NoError(t, entry.Err())
		}
		assert.Positive(t, dog.Stats().Lost(), "the short ones have not the time")
	})
}

// A lease whose deadline has come is not sent any more, though it is due and no
// timer has told yet.
func TestALeasePastItsDeadlineIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		engine := new(manual)
		dog := newDog(t, engine, s, &renewal.Options{MaxBatch: 1, InFlight: 1})
		entries := []*renewal.Entry[string]{register(t, dog, "a"), register(t, dog, "b")}
		time.Sleep(period)
		engine.run()
		settle(2 * time.Millisecond) // to gather the batch
		require.Equal(t, 1, dog.Stats().Due)
		time.Sleep(life - period)
		close(release)
		synctest.Wait()
		assert.Len(t, s.seen(), 1)
		for _, entry := range entries {
			assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		}
	})
}

type renewerFunc func(ctx context.Context, batch []string, out []renewal.Outcome) error

func (f renewerFunc) Renew(ctx context.Context, batch []string, out []renewal.Outcome) error {
	return f(ctx, batch, out)
}

func TestARenewalEndsAtItsTimeout(t *testing.T) {
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
			dog := newDog(t, e, s, &renewal.Options{Timeout: tc.timeout})
			sent := time.Now()
			register(t, dog, "a")
			settle(life + time.Second)
			require.NotEmpty(t, ended)
			if tc.want == 0 {
				assert.Equal(t, sent.Add(life), ended[0])
			} else {
				assert.Equal(t, tc.want, ended[0].Sub(s.seen()[0].at))
			}
		}
	})
}

// 15 s of silence at 30 s / 10 s never cost a lease, wherever in the period they
// begin: the request that is under way is answered when the silence ends.
func TestHalfATTLOfSilenceCostsNothing(t *testing.T) {
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
			dog := newDog(t, e, s, nil)
			entry := register(t, dog, "a")
			settle(3 * time.Minute)
			assert.NoError(t, entry.Err(), "phase %d", phase)
			entry.Stop()
		}
	})
}

func TestAnAnswerAfterTheDeadlineDoesNotRevive(t *testing.T) {
	// The engine is silent, so that only settle can notice the deadline.
	for outcome, said := range map[renewal.Outcome]error{renewal.Renewed: nil, renewal.Unknown: errIO} {
		synctest.Test(t, func(t *testing.T) {
			fire := make(chan struct{})
			s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
				<-fire
				return outcome, said
			}}
			engine := new(manual)
			dog := newDog(t, engine, s, nil)
			entry := register(t, dog, "a")
			time.Sleep(period)
			engine.run()
			settle(2 * time.Millisecond) // to gather the batch
			require.Len(t, s.seen(), 1)
			time.Sleep(life - period)
			close(fire)
			synctest.Wait()
			assert.False(t, entry.Valid())
			assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
			if said != nil {
				assert.ErrorIs(t, entry.Err(), said, "it tells what the store said last")
			}
		})
	}
}
