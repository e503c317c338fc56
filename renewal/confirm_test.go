package renewal_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestConfirmMovesTheDeadlineAndTheNextRenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{Align: -1})
		entry := register(t, dog, "a")
		settle(period / 4)
		require.Zero(t, s.count("a"))
		sent := time.Now()
		require.True(t, entry.Confirm(sent, time.Time{}))
		assert.Equal(t, sent.Add(life), entry.Deadline())
		settle(period - 2*slack - 10*time.Millisecond)
		assert.Zero(t, s.count("a"), "renewed a period after the request, not before")
		settle(3*slack + 20*time.Millisecond)
		assert.Equal(t, 1, s.count("a"))
		settle(time.Hour)
		assert.True(t, entry.Valid())
	})
}

func TestConfirmNeverMovesTheDeadlineBack(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		entry := register(t, dog, "a")
		deadline := entry.Deadline()
		require.True(t, entry.Confirm(time.Now().Add(-time.Second), time.Time{}))
		assert.Equal(t, deadline, entry.Deadline())
		require.True(t, entry.Confirm(time.Time{}, time.Time{}))
		assert.Equal(t, deadline, entry.Deadline(), "by the oldest instant there is")
		require.True(t, entry.Confirm(time.Now().Add(time.Hour), time.Time{}))
		assert.Equal(t, time.Now().Add(life), entry.Deadline(), "nor into the future")
	})
}

// A host that was suspended while the request was under way: the wall clock alone knows
// how long ago it was sent. In a bubble readings have no monotonic part, so this test
// lives in real time; it waits for nothing.
func TestConfirmCountsASuspension(t *testing.T) {
	dog := newDog(t, new(manual), new(store), nil)
	entry, err := dog.Register("a", renewal.Grant{TTL: 10 * time.Hour, Sent: time.Now().Add(-5 * time.Hour)})
	require.NoError(t, err)
	require.True(t, entry.Confirm(suspendedSince(t, time.Now(), 4*time.Hour), time.Time{}))
	assert.InDelta(t, dog.Life(10*time.Hour)-4*time.Hour, time.Until(entry.Deadline()), float64(time.Hour))
}

// suspendedSince returns a reading of both clocks that is older than now by a suspension
// of the host, in which the monotonic clock stood still.
func suspendedSince(t *testing.T, now time.Time, d time.Duration) time.Time {
	t.Helper()
	read := now
	*(*uint64)(unsafe.Pointer(&read)) -= uint64(d/time.Second) << 30 // the seconds of the wall clock
	require.Zero(t, now.Sub(read), "is this still how package time keeps its readings?")
	require.Equal(t, d, now.Round(0).Sub(read.Round(0)))
	return read
}

func TestConfirmReplacesTheEndOfALease(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), nil)
		start := time.Now()
		limited := func() *renewal.Entry[string] {
			entry, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(time.Minute)})
			require.NoError(t, err)
			return entry
		}
		kept, moved := limited(), limited()
		settle(period / 4)
		require.True(t, kept.Confirm(time.Now(), time.Time{}))
		require.True(t, moved.Confirm(time.Now(), start.Add(2*time.Minute)))
		<-kept.Done()
		assert.LessOrEqual(t, time.Since(start), time.Minute+slack)
		assert.True(t, moved.Valid())
		<-moved.Done()
		assert.GreaterOrEqual(t, time.Since(start), 2*time.Minute)
		assert.LessOrEqual(t, time.Since(start), 2*time.Minute+slack)
	})
}

// While a renewal hangs the timer stands at the deadline, and moves with it.
func TestConfirmWhileARenewalIsUnderWay(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		forever := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-forever
			return renewal.Unknown, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		settle(period)
		require.Equal(t, 1, s.count("a"))
		settle(period)
		confirmed := time.Now()
		require.True(t, entry.Confirm(confirmed, time.Time{}))
		<-entry.Done()
		assert.InDelta(t, life, time.Since(confirmed), float64(slack))
		close(forever)
		synctest.Wait()
	})
}

// What was sent before a Confirm may be answered after it.
func TestARenewalNeverMovesTheDeadlineOfAConfirmBack(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		answer := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-answer
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		settle(period)
		require.Equal(t, 1, s.count("a"))
		settle(period / 4)
		require.True(t, entry.Confirm(time.Now(), time.Time{}))
		deadline := entry.Deadline()
		close(answer)
		synctest.Wait()
		require.EqualValues(t, 1, dog.Stats().Renewed)
		assert.Equal(t, deadline, entry.Deadline())
	})
}

func TestConfirmRevivesNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		stopped := register(t, dog, "a")
		stopped.Stop()
		require.False(t, stopped.Confirm(time.Now(), time.Time{}))
		assert.False(t, stopped.Valid())
		assert.Zero(t, stopped.Deadline())
	})
	synctest.Test(t, func(t *testing.T) {
		dog := newDog(t, new(manual), new(store), nil)
		entry := register(t, dog, "a")
		time.Sleep(ttl) // no timer has told
		require.False(t, entry.Confirm(time.Now(), time.Time{}))
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
	})
}
