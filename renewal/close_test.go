package renewal_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

func TestCloseReturnsWhatWasHeld(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		var entries []*renewal.Entry[string]
		for i := range 10 {
			entries = append(entries, register(t, dog, fmt.Sprint(i)))
		}
		done := entries[5].Done()
		entries[0].Stop()
		settle(time.Minute)
		renewals := len(s.seen())
		leases, err := dog.Close(context.Background())
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, leases)
		assert.True(t, closed(done))
		for _, entry := range entries[1:] {
			require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
			assert.False(t, entry.Valid())
			assert.False(t, entry.Stop())
		}
		_, err = dog.Register("late", renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.ErrorIs(t, err, renewal.ErrClosed)
		leases, err = dog.Close(context.Background())
		require.NoError(t, err)
		assert.Empty(t, leases)
		settle(time.Hour)
		assert.Len(t, s.seen(), renewals)
		assert.Zero(t, dog.Stats().Lost(), "closed is not lost")
	})
}

func TestCloseCancelsAndWaitsForRenewals(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, _ string) (renewal.Outcome, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // it takes a while to notice
			return renewal.Unknown, ctx.Err()
		}}
		dog := newDog(t, e, s, nil)
		register(t, dog, "a")
		settle(period)
		require.Equal(t, 1, dog.Stats().InFlight)
		start := time.Now()
		_, err := dog.Close(context.Background())
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, dog.Stats().InFlight)
	})
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		dog := newDog(t, e, &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}, nil)
		entry := register(t, dog, "a")
		settle(period)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		leases, err := dog.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []string{"a"}, leases, "what was held is returned all the same")
		require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
		close(release)
	})
}

func TestAClosedEngineEndsItsEntries(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, &renewal.Options{Align: period / 2})
		renewed, waits := register(t, dog, "a"), registerFor(t, dog, "b", time.Hour)
		settle(period)
		require.Len(t, s.seen(), 1)
		e.Close()
		close(release)
		settle(0)
		require.ErrorIs(t, renewed.Err(), renewal.ErrClosed)
		require.ErrorIs(t, renewed.Err(), schedule.ErrClosed)
		assert.True(t, closed(renewed.Done()))

		settle(time.Hour)
		assert.False(t, waits.Valid(), "no timer tells it, the clock does")
		assert.Equal(t, renewal.Expired, reasonOf(t, waits.Err()))
		_, err := dog.Register("c", renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.ErrorIs(t, err, schedule.ErrClosed)
		assert.Zero(t, dog.Stats().Held, "nothing is left behind")
	})
}

// What is done already is no error, even for a ctx that has ended.
func TestCloseWithAnEndedContext(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 {
			dog := newDog(t, e, new(store), nil)
			register(t, dog, "a")
			leases, err := dog.Close(ended)
			require.NoError(t, err)
			assert.Len(t, leases, 1)
		}
	})
}

func TestCloseNeedsAContext(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		_, err := dog.Close(nil) //nolint:staticcheck // the nil is what is tested
		require.ErrorContains(t, err, "context")
	})
}

// Whichever entries end, the others are still known to Close.
func TestCloseKnowsAllThatAreLeft(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		const n = 6
		for mask := range 1 << n {
			for _, oldestFirst := range []bool{true, false} {
				dog := newDog(t, e, new(store), nil)
				var left, gone []*renewal.Entry[string]
				var want []string
				for i := range n {
					entry := register(t, dog, fmt.Sprint(i))
					if mask&(1<<i) != 0 {
						gone = append(gone, entry)
					} else {
						left, want = append(left, entry), append(want, entry.Lease())
					}
				}
				if !oldestFirst {
					slices.Reverse(gone)
				}
				for _, entry := range gone {
					assert.True(t, entry.Stop())
				}
				got, err := dog.Close(context.Background())
				require.NoError(t, err)
				require.ElementsMatch(t, want, got)
				for _, entry := range left {
					require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
				}
			}
		}
	})
}

// Close returns what was held also if it has to wait for a renewal.
func TestCloseReturnsWhatWasHeldAfterItsWait(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return renewal.Unknown, ctx.Err()
		}}
		dog := newDog(t, e, s, nil)
		register(t, dog, "a")
		for len(s.seen()) == 0 {
			settle(time.Millisecond)
		}
		begun := time.Now()
		left, err := dog.Close(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, left)
		assert.Equal(t, time.Second, time.Since(begun))
	})
}
