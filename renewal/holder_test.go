package renewal_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestStop(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		settle(time.Minute)
		done, renewals := entry.Done(), s.count("a")
		assert.True(t, entry.Stop())
		assert.True(t, closed(done))
		assert.False(t, entry.Stop(), "once")
		assert.False(t, entry.Valid())
		require.ErrorIs(t, entry.Err(), renewal.ErrStopped)
		require.NotErrorIs(t, entry.Err(), renewal.ErrLost)
		settle(time.Hour)
		assert.Equal(t, renewals, s.count("a"), "no renewal after Stop")
		assert.Zero(t, dog.Stats().Lost())
		assert.Zero(t, dog.Stats().Held)
	})
}

// A stopped entry leaves the due list at once: the batch that comes next does not
// take it, though it was due.
func TestStopWhileDue(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{MaxBatch: 1, InFlight: 1, Align: period / 2})
		var entries []*renewal.Entry[string]
		for i := range 10 {
			entries = append(entries, register(t, dog, fmt.Sprint(i)))
		}
		settle(period + time.Second)
		require.Len(t, s.seen(), 1, "one is being renewed, nine are due")
		require.Equal(t, 9, dog.Stats().Due)
		first := s.seen()[0].batch[0]
		for i, entry := range entries {
			if i%2 == 0 || fmt.Sprint(i) == first {
				assert.True(t, entry.Stop())
			}
		}
		close(release)
		settle(time.Second)
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
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		var called, calledOff, late atomic.Int64
		entry.AfterFunc(func() {
			called.Add(1)
			assert.ErrorIs(t, entry.Err(), renewal.ErrLost, "f may call the entry")
		})
		stop := entry.AfterFunc(func() { calledOff.Add(1) })
		assert.True(t, stop())
		assert.False(t, stop(), "called off before")
		settle(2 * period)
		assert.EqualValues(t, 1, called.Load())
		assert.Zero(t, calledOff.Load())

		stop = entry.AfterFunc(func() { late.Add(1) })
		assert.False(t, stop(), "started at once")
		synctest.Wait()
		assert.EqualValues(t, 1, late.Load())
		assert.Panics(t, func() { entry.AfterFunc(nil) }, "here, not on a goroutine of ours at the end")
	})
}

func TestDoneIsOneChannel(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		entry, other := register(t, dog, "a"), register(t, dog, "b")
		done := entry.Done()
		assert.Equal(t, done, entry.Done())
		assert.False(t, closed(done))
		entry.Stop()
		other.Stop()
		assert.True(t, closed(done))
		assert.True(t, closed(entry.Done()))
		assert.True(t, closed(other.Done()), "also if first asked for after the end")
	})
}
