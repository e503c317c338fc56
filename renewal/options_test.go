package renewal_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestInvalidOptions(t *testing.T) {
	for field, p := range map[string]renewal.Policy{
		"Fraction ":    {Fraction: -1},
		"Fraction":     {Fraction: 0.51},
		"Fraction  ":   {Fraction: math.NaN()},
		"Fraction   ":  {Fraction: 0.000099},
		"Fraction    ": {Fraction: math.SmallestNonzeroFloat64},
		"Failures":     {Failures: -2},
		"Timeout":      {Timeout: -1},
		"Margin":       {Margin: -1},
	} {
		_, err := renewal.New(silent{}, new(store), &renewal.Options{Policy: p})
		require.ErrorContains(t, err, "renewal: Options."+strings.TrimSpace(field))
	}
	for _, engine := range []schedule.Scheduler{nil, (*wheel.Wheel)(nil)} {
		_, err := renewal.New(engine, new(store), nil)
		require.EqualError(t, err, "renewal: nil engine")
	}
	for _, r := range []renewal.Renewer[string]{nil, (*store)(nil)} {
		_, err := renewal.New(silent{}, r, nil)
		require.EqualError(t, err, "renewal: nil Renewer")
	}
}

func TestZeroWatchdog(t *testing.T) {
	w := new(renewal.Watchdog[int])
	entry, err := w.Register(1, renewal.Grant{TTL: time.Minute, Sent: time.Now()})
	require.EqualError(t, err, "renewal: the Watchdog was not made by New")
	assert.Nil(t, entry)
	assert.Zero(t, w.Stats())
	leases, err := w.Close(t.Context())
	require.EqualError(t, err, "renewal: the Watchdog was not made by New")
	assert.Empty(t, leases)
}

func TestInvalidGrants(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		now := time.Now()
		for name, tc := range map[string]struct {
			grant renewal.Grant
			want  string
		}{
			"zero TTL":       {renewal.Grant{Sent: now}, "Grant.TTL"},
			"negative TTL":   {renewal.Grant{TTL: -ttl, Sent: now}, "Grant.TTL"},
			"tiny TTL":       {renewal.Grant{TTL: 5 * time.Millisecond, Sent: now}, "Grant.TTL: TTL of 5ms is too short"},
			"1 ns TTL":       {renewal.Grant{TTL: 1, Sent: now}, "Grant.TTL"},
			"no Sent":        {renewal.Grant{TTL: ttl}, "Grant.Sent"},
			"Sent to come":   {renewal.Grant{TTL: ttl, Sent: now.Add(1)}, "Grant.Sent"},
			"Until too soon": {renewal.Grant{TTL: ttl, Sent: now, Until: now}, "Grant.Until"},
		} {
			_, err := watchdog.Register("a", tc.grant)
			require.ErrorContains(t, err, tc.want, name)
			require.NotErrorIs(t, err, renewal.ErrLost, name)
		}
		_, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: now.Add(-validity)})
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, err), "the deadline of the grant has passed")
		_, err = watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Time{}.Add(1)})
		assert.Equal(t, renewal.ReasonExpired, reasonOf(t, err), "a very old grant")
		_, err = watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: now.Add(1 - validity)})
		require.NoError(t, err)
		forever, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.NoError(t, err)
		assert.True(t, forever.Valid())
		assert.Equal(t, 2, watchdog.Stats().Held)
	})
}

// A TTL must leave time for a second attempt, unless no failure is tolerated.
func TestATTLWithoutTimeForASecondAttemptIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grant := renewal.Grant{TTL: ttl, Sent: time.Now()}
		_, err := newWatchdog(t, silent{}, new(store), &renewal.Options{Policy: renewal.Policy{Fraction: 0.5}}).Register("a", grant)
		require.ErrorContains(t, err, "too short")
		_, err = newWatchdog(t, silent{}, new(store), &renewal.Options{Policy: renewal.Policy{Fraction: 0.5, Failures: 1}}).Register("a", grant)
		require.NoError(t, err)
		_, err = newWatchdog(t, silent{}, new(store), &renewal.Options{Policy: renewal.Policy{Fraction: 0.45}}).Register("a", grant)
		require.NoError(t, err)

		watchdog := newWatchdog(t, silent{}, new(store), &renewal.Options{Policy: renewal.Policy{Fraction: 0.5}})
		grant.Until = grant.Sent.Add(validity + 1)
		_, err = watchdog.Register("a", grant)
		require.ErrorContains(t, err, "too short", "the lease outlasts its validity by a nanosecond, so it needs a renewal")
		grant.Until = grant.Sent.Add(validity)
		_, err = watchdog.Register("a", grant)
		require.NoError(t, err, "a lease without renewals may be short")
	})
}

// The margin must cover two ticks of the engine.
func TestTheMarginCoversTheTick(t *testing.T) {
	coarse, err := wheel.New(&wheel.Options{Tick: time.Second})
	require.NoError(t, err)
	defer coarse.Close()
	_, err = renewal.New(coarse, new(store), &renewal.Options{Policy: renewal.Policy{Margin: time.Second}})
	require.ErrorContains(t, err, "Options.Margin must be at least 2.002s")
	watchdog := newWatchdog(t, coarse, new(store), nil)
	assert.Equal(t, ttl-ttl/100-2002*time.Millisecond, watchdog.Validity(ttl))
	_, err = watchdog.Register("a", renewal.Grant{TTL: 3 * time.Second, Sent: time.Now()})
	require.EqualError(t, err, "renewal: Grant.TTL: TTL of 3s is too short: with a margin of 2.002s (the engine's tick is 1s) it is valid for 968ms, but renewals need 2s plus the margin")
	watchdog = newWatchdog(t, coarse, new(store), &renewal.Options{Policy: renewal.Policy{Margin: 10 * time.Second}})
	require.EqualError(t, watchdog.CheckTTL(ttl), "TTL of 30s is too short: with a margin of 10s it is valid for 19.7s, but renewals need 20s plus the margin")
}

func TestACoarseGridDoesNotMakeRenewalsDueAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: time.Hour})})
		register(t, watchdog, "a")
		advance(time.Minute)
		assert.LessOrEqual(t, len(s.seen()), 12)
	})
}

func TestAFullEngineRefusesARegistration(t *testing.T) {
	w, err := wheel.New(&wheel.Options{MaxPending: 2})
	require.NoError(t, err)
	defer w.Close()
	watchdog := newWatchdog(t, w, new(store), nil)
	register(t, watchdog, "a")
	second := register(t, watchdog, "b")
	_, err = watchdog.Register("c", renewal.Grant{TTL: ttl, Sent: time.Now()})
	require.ErrorIs(t, err, schedule.ErrFull)
	assert.Equal(t, 2, watchdog.Stats().Held)
	second.Stop(nil)
	register(t, watchdog, "c")
}

func TestReasonString(t *testing.T) {
	for _, r := range []renewal.Reason{renewal.ReasonNotOwned, renewal.ReasonFailed, renewal.ReasonExpired} {
		assert.NotEmpty(t, r.String())
		assert.NotContains(t, r.String(), "Reason(")
	}
	assert.Equal(t, "Reason(9)", renewal.Reason(9).String())
	err := &renewal.LostError{Reason: renewal.ReasonFailed, Err: errIO}
	assert.ErrorContains(t, err, errIO.Error())
	assert.ErrorContains(t, &renewal.LostError{Reason: renewal.ReasonExpired}, "deadline")
}
