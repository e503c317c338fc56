package renewal_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestFirstRenewalsAreSpread(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 10_000})})
		start := time.Now()
		for i := range 1000 {
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(period + time.Second)
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
		// The steps shrink with each lease, so a fifth of the time has 130 to 290 leases,
		// depending on the first phase.
		assert.InDelta(t, 200, early, 100)
		assert.InDelta(t, 200, late, 100)
	})
}

// Leases acquired one after another keep their order in all later periods, except at a few
// points where the phase wraps around.
func TestRenewalsKeepTheOrderOfRegistration(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, nil)
		const leases = 3000
		for i := range leases {
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(10 * period)
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

// The linger time is part of the period, and a short period has a shorter one.
func TestNoRenewalIsLaterThanAPeriod(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		for _, c := range []struct {
			fraction float64
			limit    time.Duration
		}{{1.0 / 3, period}, {0.0001, time.Millisecond}} {
			s := new(store)
			watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Fraction: c.fraction}, seam.Tuning{Align: -1})})
			registerFor(t, watchdog, "a", time.Duration(float64(c.limit)/c.fraction))
			advance(100 * c.limit)
			calls := s.seen()
			require.GreaterOrEqual(t, len(calls), 2)
			for i := 1; i < len(calls); i++ {
				assert.LessOrEqual(t, calls[i].at.Sub(calls[i-1].at), c.limit+slack)
			}
			watchdog.Close(context.Background())
		}
	})
}

// The leases of one grid instant form one batch, although the engine fires their timers one
// by one.
func TestLeasesDueTogetherShareABatch(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: period / 2})})
		for i := range 900 {
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(20 * period)
		assert.LessOrEqual(t, len(s.seen()), 2*21)
	})
}
