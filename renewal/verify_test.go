package renewal_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/renewal"
)

// verifying runs a test in a bubble with a watchdog for a store.
func verifying(t *testing.T, s renewal.Renewer[string], test func(t *testing.T, w *renewal.Watchdog[string])) {
	synctest.Test(t, func(t *testing.T) {
		e, err := heapqueue.NewScheduler(nil)
		require.NoError(t, err)
		defer e.Close()
		test(t, newWatchdog(t, e, s, &renewal.Options{Logger: slog.New(slog.DiscardHandler)}))
	})
}

func registerMany(t *testing.T, w *renewal.Watchdog[string], n int) []*renewal.Entry[string] {
	t.Helper()
	entries := make([]*renewal.Entry[string], n)
	for i := range entries {
		entries[i] = register(t, w, fmt.Sprint(i))
	}
	return entries
}

var suspicion = renewal.Event{Kind: renewal.EventVerify, Detail: "test"}

func TestAVerificationTellsAtOnce(t *testing.T) {
	s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
		if lease == "7" {
			return renewal.LostTaken, nil
		}
		return renewal.Renewed, nil
	}}
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		entries := registerMany(t, w, 200)
		advance(time.Second)
		w.Record(suspicion)
		synctest.Wait()
		require.Len(t, s.seen(), 1)
		for i, e := range entries {
			if i == 7 {
				assert.Equal(t, renewal.ReasonNotOwned, reasonOf(t, e.Err()))
				continue
			}
			assert.Equal(t, time.Now().Add(validity), e.Deadline(), "a confirmation moves the deadline")
		}
		advance(period - time.Second)
		assert.Equal(t, 2, s.count("0"), "the next renewal stays where it was")
		stats := w.Stats()
		assert.Equal(t, uint64(1), stats.NotOwned)
		assert.Equal(t, uint64(199+199), stats.Renewed)
	})
}

// The two failures that end a lease are two regular ones: a failed verification does not count.
func TestAVerificationWithoutAnAnswerChangesNothing(t *testing.T) {
	var works atomic.Bool
	s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
		if works.Load() {
			return renewal.Renewed, nil
		}
		return failing(ctx, lease)
	}}
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		entry := register(t, w, "a")
		deadline := entry.Deadline()
		advance(time.Second)
		w.Record(suspicion)
		advance(time.Second)
		early := len(s.seen())
		assert.Equal(t, 3, early, "a batch is tried three times")
		advance(period - 2*time.Second)
		require.Len(t, s.seen(), early+1, "the regular renewal comes in time")
		require.NoError(t, entry.Err())
		assert.Equal(t, deadline, entry.Deadline())

		w.Record(suspicion) // between two regular attempts
		advance(time.Second)
		require.NoError(t, entry.Err())
		works.Store(true)
		advance(period)
		require.NoError(t, entry.Err())
		assert.Greater(t, entry.Deadline(), deadline)
	})
}

func TestARegularRenewalDoesNotWaitForAVerification(t *testing.T) {
	s := new(store)
	s.answer = func(ctx context.Context, lease string) (renewal.Outcome, error) {
		if len(s.seen()) == 1 {
			return hang(ctx, lease)
		}
		return renewal.Renewed, nil
	}
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		start := time.Now()
		register(t, w, "a")
		advance(period / 2)
		w.Record(suspicion)
		advance(period / 2)
		calls := s.seen()
		require.GreaterOrEqual(t, len(calls), 2)
		assert.Less(t, calls[1].at.Sub(start), period)
	})
}

// The deadline counts from the sending, and an answer revives nothing.
func TestALateVerification(t *testing.T) {
	const answerTime = 3 * time.Second
	s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
		time.Sleep(answerTime)
		return renewal.Renewed, nil
	}}
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		held, stopped := register(t, w, "a"), register(t, w, "b")
		sent := time.Now()
		w.Record(suspicion)
		synctest.Wait()
		require.True(t, renewal.StopEntry(stopped, nil))
		advance(2 * answerTime)
		assert.Equal(t, sent.Add(validity), held.Deadline())
		assert.False(t, stopped.Valid())
		assert.ErrorIs(t, stopped.Err(), renewal.ErrStopped)
	})
}

func TestAVerificationIsSpread(t *testing.T) {
	const leases = 20_000
	s := new(store)
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		registerMany(t, w, leases)
		start := time.Now()
		w.Record(suspicion)
		advance(time.Second)
		calls := s.seen()
		require.Len(t, calls, leases/1000)
		assert.Equal(t, 1, s.most, "the batches follow one another")
		took := calls[len(calls)-1].at.Sub(start)
		assert.Equal(t, (leases/1000-1)*5*time.Millisecond, took, "200,000 leases per second")
	})
}

func TestVerificationsAreRare(t *testing.T) {
	s := new(store)
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		register(t, w, "a")
		suspect := func() int {
			before := s.count("a")
			w.Record(suspicion)
			synctest.Wait()
			return s.count("a") - before
		}
		assert.Equal(t, 1, suspect())
		assert.Equal(t, 0, suspect(), "one pass in a period")
		advance(period / 2)
		assert.Equal(t, 0, suspect(), "one pass in a period")
		w.Record(renewal.Event{Kind: renewal.EventServerChanged})
		assert.Equal(t, 1, suspect(), "another server answers")
		assert.Equal(t, 0, suspect(), "the same server answers")
		advance(period)
		assert.Equal(t, 1, suspect(), "after a period")
	})
}

// The renewals of such a lease are over. Its key would outlive it.
func TestLeasesThatEndAreNotVerified(t *testing.T) {
	s := new(store)
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		now := time.Now()
		_, err := w.Register("fixed", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(w.Validity(ttl))})
		require.NoError(t, err)
		_, err = w.Register("limited", renewal.Grant{TTL: ttl, Sent: now, Until: now.Add(5 * period)})
		require.NoError(t, err)
		w.Record(suspicion)
		synctest.Wait()
		require.Len(t, s.seen(), 1)
		assert.Equal(t, []string{"limited"}, s.seen()[0].batch)
		advance(3 * period)
		before := s.count("limited")
		w.Record(suspicion)
		synctest.Wait()
		assert.Equal(t, before, s.count("limited"), "it is in its last period")
	})
}

// flushable is a store whose leases are missing from an instant on, with lanes by the first letter of a lease.
type flushable struct {
	store
	missing func(lease string) bool
}

func (*flushable) Lane(lease string) int { return int(lease[0]) }

func newFlushable() *flushable {
	s := &flushable{missing: func(string) bool { return false }}
	s.answer = func(_ context.Context, lease string) (renewal.Outcome, error) {
		if s.missing(lease) {
			return renewal.LostMissing, nil
		}
		return renewal.Renewed, nil
	}
	return s
}

func TestADenialVerifiesTheLane(t *testing.T) {
	for _, test := range []struct {
		name    string
		missing func(lease string) bool
		sent    int // leases that are verified after the denial of a0
		lost    int // leases that are told
	}{
		{"one is missing", func(lease string) bool { return lease == "a0" }, 16, 1},
		{"all of the lane are missing", func(lease string) bool { return lease[0] == 'a' }, 16 + 83, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFlushable()
			verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
				var entries []*renewal.Entry[string]
				for i := range 100 {
					entries = append(entries, register(t, w, fmt.Sprint("a", i)), register(t, w, fmt.Sprint("b", i)))
				}
				s.missing = test.missing
				entries[0].ReportLost(nil) // by a request of the holder
				synctest.Wait()
				sent := 0
				for _, c := range s.seen() {
					sent += len(c.batch)
					for _, lease := range c.batch {
						assert.Equal(t, "a", lease[:1])
					}
				}
				assert.Equal(t, test.sent, sent)
				assert.Equal(t, 200-test.lost, w.Stats().Held)
			})
		})
	}
}

// A denial is isolated if the same answer confirms many others.
func TestDenialsAmongManyConfirmations(t *testing.T) {
	s := newFlushable()
	s.missing = func(lease string) bool { return lease == "a0" || lease == "a1" }
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		now := time.Now()
		advance(period) // so that the renewals of all leases come together
		for i := range 100 {
			_, err := w.Register(fmt.Sprint("a", i), renewal.Grant{TTL: ttl, Sent: now})
			require.NoError(t, err)
		}
		advance(ttl / 2)
		assert.Equal(t, 98, w.Stats().Held)
		first := s.seen()[0]
		require.Len(t, first.batch, 100)
		for _, c := range s.seen()[1:] {
			assert.NotEqual(t, first.at, c.at, "nothing is verified")
		}
	})
}

func TestOnlyTheLaneIsVerified(t *testing.T) {
	s := newFlushable()
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		register(t, w, "a")
		register(t, w, "b")
		w.Record(renewal.Event{Kind: renewal.EventVerify, Lane: 'b'})
		synctest.Wait()
		assert.Equal(t, []int{0, 1}, []int{s.count("a"), s.count("b")})
		w.Record(renewal.Event{Kind: renewal.EventVerify, Lane: renewal.AllLanes})
		synctest.Wait()
		assert.Equal(t, []int{1, 2}, []int{s.count("a"), s.count("b")})
	})
}

// What was sent before another server answered may have been confirmed by the old one.
func TestAServerThatChangesDuringAVerification(t *testing.T) {
	for _, test := range []struct {
		batch int // that reports the change
		want  int // verifications of each lease
	}{{1, 1}, {2, 2}} {
		t.Run(fmt.Sprint("batch ", test.batch), func(t *testing.T) {
			s := new(store)
			verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
				const leases = 3000
				s.answer = func(context.Context, string) (renewal.Outcome, error) { return renewal.Renewed, nil }
				entries := registerMany(t, w, leases)
				changed := false
				s.answer = func(context.Context, string) (renewal.Outcome, error) {
					if !changed && len(s.seen()) == test.batch {
						changed = true
						w.Record(renewal.Event{Kind: renewal.EventServerChanged})
						w.Record(suspicion)
					}
					return renewal.Renewed, nil
				}
				w.Record(suspicion)
				advance(time.Second)
				assert.Equal(t, test.want, s.count(entries[0].Lease()))
				assert.Equal(t, test.want, s.count(entries[leases-1].Lease()))
			})
		})
	}
}

func TestNoVerificationAfterStopOrClose(t *testing.T) {
	s := new(store)
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		entries := registerMany(t, w, 3000)
		s.answer = func(context.Context, string) (renewal.Outcome, error) { return renewal.LostMissing, nil }
		w.Record(suspicion)
		synctest.Wait() // the first batch is answered, and its entries have ended
		require.Len(t, s.seen(), 1)
		var stopped []string
		for _, e := range entries {
			if renewal.StopEntry(e, nil) {
				stopped = append(stopped, e.Lease())
			}
		}
		require.Len(t, stopped, 2000)
		advance(time.Second)
		assert.Len(t, s.seen(), 1, "a stopped lease is not sent")
	})
	verifying(t, s, func(t *testing.T, w *renewal.Watchdog[string]) {
		s.answer = nil
		registerMany(t, w, 3000)
		w.Record(suspicion)
		synctest.Wait()
		before := len(s.seen())
		_, err := w.Close(context.Background())
		require.NoError(t, err)
		advance(time.Second)
		assert.Len(t, s.seen(), before)
	})
}
