package renewal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestStop(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		advance(time.Minute)
		done, renewals := entry.Done(), s.count("a")
		assert.True(t, renewal.StopEntry(entry, nil))
		assert.True(t, closed(done))
		assert.False(t, renewal.StopEntry(entry, nil), "once")
		assert.False(t, entry.Valid())
		require.ErrorIs(t, entry.Err(), renewal.ErrStopped)
		require.NotErrorIs(t, entry.Err(), renewal.ErrLost)
		advance(time.Hour)
		assert.Equal(t, renewals, s.count("a"), "no renewal after Stop")
		assert.Zero(t, watchdog.Stats().Lost())
		assert.Zero(t, watchdog.Stats().Held)
	})
}

func TestStopWithACause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		cause := errors.New("handed over")
		assert.True(t, renewal.StopEntry(entry, cause))
		assert.False(t, renewal.StopEntry(entry, io.EOF), "once")
		require.Equal(t, cause, entry.Err())
		assert.Equal(t, "a", entry.Lease())
		assert.Zero(t, watchdog.Stats().Lost())
		advance(time.Hour)
		assert.Zero(t, s.count("a"))
		assert.Zero(t, watchdog.Stats().Held)
	})
}

// A stopped entry leaves the due list at once, so the next batch does not contain it.
func TestStopWhileDue(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1, InFlight: 1, Align: period / 2})})
		var entries []*renewal.Entry[string]
		for i := range 10 {
			entries = append(entries, register(t, watchdog, fmt.Sprint(i)))
		}
		advance(period + time.Second)
		require.Len(t, s.seen(), 1, "one is being renewed, nine are due")
		require.Equal(t, 9, watchdog.Stats().Due)
		first := s.seen()[0].batch[0]
		for i, entry := range entries {
			if i%2 == 0 || fmt.Sprint(i) == first {
				assert.True(t, renewal.StopEntry(entry, nil))
			}
		}
		close(release)
		advance(time.Second)
		for i, entry := range entries {
			stopped := i%2 == 0 || fmt.Sprint(i) == first
			want := 1
			if stopped && fmt.Sprint(i) != first {
				want = 0
			}
			assert.Equal(t, want, s.count(fmt.Sprint(i)), "lease %d", i)
			assert.Equal(t, !stopped, entry.Valid(), "lease %d: the answer for a stopped one is dropped", i)
		}
	})
}

func TestAfterFunc(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: failing}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		var called, calledOff, late atomic.Int64
		entry.AfterFunc(func() {
			called.Add(1)
			assert.ErrorIs(t, entry.Err(), renewal.ErrLost, "f may call the entry")
		})
		stop := entry.AfterFunc(func() { calledOff.Add(1) })
		assert.True(t, stop())
		assert.False(t, stop(), "it was cancelled before")
		advance(2 * period)
		assert.EqualValues(t, 1, called.Load())
		assert.Zero(t, calledOff.Load())

		stop = entry.AfterFunc(func() { late.Add(1) })
		assert.False(t, stop(), "f was started at once")
		synctest.Wait()
		assert.EqualValues(t, 1, late.Load())
		assert.Panics(t, func() { entry.AfterFunc(nil) }, "AfterFunc itself panics")
	})
}

func TestDoneReturnsOneChannel(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		entry, other := register(t, watchdog, "a"), register(t, watchdog, "b")
		done := entry.Done()
		assert.Equal(t, done, entry.Done())
		assert.False(t, closed(done))
		entry.Stop(nil)
		other.Stop(nil)
		assert.True(t, closed(done))
		assert.True(t, closed(entry.Done()))
		assert.True(t, closed(other.Done()), "even if the first call follows the end")
	})
}
