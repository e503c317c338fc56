package renewal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestAnEntryPassesItsPlaceOn(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		first := register(t, dog, "first")
		settle(period / 4)
		require.Zero(t, s.count("first"))
		deadline, done := first.Deadline(), first.Done()

		second, err := first.Pass("second")
		require.NoError(t, err)
		<-done
		assert.False(t, first.Valid())
		require.ErrorIs(t, first.Err(), renewal.ErrStopped)
		assert.False(t, first.Stop())
		assert.True(t, second.Valid())
		assert.Equal(t, "second", second.Lease())
		assert.Equal(t, deadline, second.Deadline())
		assert.Equal(t, 1, dog.Stats().Held)

		settle(period)
		assert.Equal(t, 1, s.count("second"), "it was renewed when the first would have been")
		settle(time.Hour)
		assert.True(t, second.Valid())
		assert.Zero(t, s.count("first"))
	})
}

// What the store still answers for the one is nothing to the other.
func TestAnEntryThatIsBeingRenewedPassesItsPlaceOn(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		hold := make(chan struct{})
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease == "first" {
				<-hold
				return renewal.Lost, nil
			}
			return renewal.Renewed, nil
		}}
		dog := newDog(t, e, s, nil)
		first := register(t, dog, "first")
		settle(period)
		require.Equal(t, 1, s.count("first"))
		second, err := first.Pass("second")
		require.NoError(t, err)
		close(hold)
		settle(period)
		assert.Equal(t, 1, s.count("second"), "it does not wait for a period")
		settle(time.Hour)
		assert.True(t, second.Valid())
	})
}

func TestAnEntryThatHasEndedPassesNothingOn(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, &store{answer: hang}, nil)
		stopped, lost := register(t, dog, "stopped"), register(t, dog, "lost")
		stopped.Stop()
		_, err := stopped.Pass("next")
		require.ErrorIs(t, err, renewal.ErrStopped)
		time.Sleep(life) // no timer has run yet when Pass looks at the clock
		_, err = lost.Pass("next")
		require.ErrorIs(t, err, renewal.ErrLost)
		assert.Zero(t, dog.Stats().Held)
	})
}

func TestAMaximumHoldIsPassedOn(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		start := time.Now()
		dog := newDog(t, e, new(store), nil)
		first, err := dog.Register("first", renewal.Grant{TTL: ttl, Sent: start, Until: start.Add(time.Minute)})
		require.NoError(t, err)
		settle(period)
		second, err := first.Pass("second")
		require.NoError(t, err)
		<-second.Done()
		assert.LessOrEqual(t, time.Since(start), time.Minute+slack)
		assert.GreaterOrEqual(t, time.Since(start), time.Minute-time.Second)
	})
}

func TestAnEntryKeepsItsPlaceIfTheEngineIsFull(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		first := register(t, dog, "first")
		e.Close()
		_, err := first.Pass("second")
		require.Error(t, err)
		assert.True(t, first.Valid())
		assert.True(t, first.Stop())
	})
}

// It is still the second failure in a row that ends the lease.
func TestFailuresArePassedOn(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, &store{answer: failing}, nil)
		start := time.Now()
		first := register(t, dog, "first")
		settle(period + slack)
		second, err := first.Pass("second")
		require.NoError(t, err)
		<-second.Done()
		assert.LessOrEqual(t, time.Since(start), 2*period+2*slack)
		var lost *renewal.LostError
		require.ErrorAs(t, second.Err(), &lost)
		assert.Equal(t, renewal.Failed, lost.Reason)
	})
}
