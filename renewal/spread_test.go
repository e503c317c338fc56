package renewal_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestFirstRenewalsAreSpread(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{MaxBatch: 10_000})
		start := time.Now()
		for i := range 1000 {
			register(t, dog, fmt.Sprint(i))
		}
		settle(period + time.Second)
		early, late, total := 0, 0, 0
		for _, c := range s.seen() {
			total += len(c.batch)
			switch after := c.at.Sub(start); {
			case after < period*6/10:
				early += len(c.batch)
			case after > period*9/10:
				late += len(c.batch)
			}
		}
		assert.Equal(t, 1000, total, "each once")
		// The steps get smaller with each lease, so a fifth of the time has 130 to 290,
		// depending on where the first one stands.
		assert.InDelta(t, 200, early, 100)
		assert.InDelta(t, 200, late, 100)
	})
}

// Leases acquired together keep their order for ever, but for a few seams: what was
// made together is renewed together.
func TestRenewalsKeepTheOrderOfRegistration(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		const leases = 5000
		for i := range leases {
			register(t, dog, fmt.Sprint(i))
		}
		settle(10 * period)
		last, seen, seams := -1, 0, 0
		for _, c := range s.seen() {
			for _, lease := range c.batch {
				i, err := strconv.Atoi(lease)
				require.NoError(t, err)
				if i != last+1 {
					seams++
				}
				last = i
				seen++
			}
		}
		require.Greater(t, seen, 9*leases)
		assert.Less(t, seams, seen/10)
	})
}

// The time to gather is part of the period, and a short period has less of it.
func TestNoRenewalIsLaterThanAPeriod(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		for _, c := range []struct {
			fraction float64
			limit    time.Duration
		}{{1.0 / 3, period}, {0.0001, time.Millisecond}} {
			s := new(store)
			dog := newDog(t, e, s, &renewal.Options{Align: -1, Fraction: c.fraction})
			registerFor(t, dog, "a", time.Duration(float64(c.limit)/c.fraction))
			settle(100 * c.limit)
			calls := s.seen()
			require.GreaterOrEqual(t, len(calls), 2)
			for i := 1; i < len(calls); i++ {
				assert.LessOrEqual(t, calls[i].at.Sub(calls[i-1].at), c.limit+slack)
			}
			dog.Close(context.Background())
		}
	})
}

func TestOneWorkerGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := new(manual)
		dog := newDog(t, engine, new(store), &renewal.Options{InFlight: 100})
		for i := range 100 {
			register(t, dog, fmt.Sprint(i))
		}
		time.Sleep(period)
		engine.run()
		assert.Equal(t, 1, dog.Stats().InFlight)
		settle(period)
	})
}

// One instant of the grid is one batch, although an engine fires one by one.
func TestWhatIsDueTogetherLeavesTogether(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{Align: period / 2})
		for i := range 900 {
			register(t, dog, fmt.Sprint(i))
		}
		settle(20 * period)
		assert.LessOrEqual(t, len(s.seen()), 2*21)
	})
}
