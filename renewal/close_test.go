package renewal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestCloseReturnsTheHeldLeases(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		var entries []*renewal.Entry[string]
		for i := range 10 {
			entries = append(entries, register(t, watchdog, fmt.Sprint(i)))
		}
		done := entries[5].Done()
		entries[0].Stop(nil)
		advance(time.Minute)
		renewals := len(s.seen())
		leases, err := watchdog.Close(context.Background())
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}, leases)
		assert.True(t, closed(done))
		for _, entry := range entries[1:] {
			require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
			assert.False(t, entry.Valid())
			assert.False(t, renewal.StopEntry(entry, nil))
		}
		_, err = watchdog.Register("late", renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.ErrorIs(t, err, renewal.ErrClosed)
		again, err := watchdog.Close(context.Background())
		require.NoError(t, err)
		assert.Empty(t, again, "each lease is returned once")
		advance(time.Hour)
		assert.Len(t, s.seen(), renewals)
		assert.Zero(t, watchdog.Stats().Lost(), "a closed entry is not a loss")
	})
}

func TestCloseCancelsAndWaitsForRenewals(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(ctx context.Context, _ string) (renewal.Outcome, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // it takes a while to notice
			return renewal.Unknown, ctx.Err()
		}}
		watchdog := newWatchdog(t, e, s, nil)
		register(t, watchdog, "a")
		advance(period)
		require.Equal(t, 1, watchdog.Stats().InFlight)
		start := time.Now()
		leases, err := watchdog.Close(context.Background())
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, leases, "it returns them even if it waits")
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, watchdog.Stats().InFlight)
	})
}

func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		watchdog := newWatchdog(t, e, &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			<-release
			return renewal.Renewed, nil
		}}, nil)
		entry := register(t, watchdog, "a")
		advance(period)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		leases, err := watchdog.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []string{"a"}, leases, "Close returns the leases although a call hangs")
		require.ErrorIs(t, entry.Err(), renewal.ErrClosed)
		close(release)
	})
}

// Close returns no error if nothing is left to do, even if ctx has ended.
func TestCloseWithAnEndedContext(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 {
			watchdog := newWatchdog(t, e, new(store), nil)
			register(t, watchdog, "a")
			leases, err := watchdog.Close(ended)
			require.NoError(t, err)
			assert.Len(t, leases, 1)
			_, err = watchdog.Close(nil) //nolint:staticcheck // the nil is what is tested
			require.ErrorContains(t, err, "context")
		}
	})
}
