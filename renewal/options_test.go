package renewal_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for field, o := range map[string]renewal.Options{
		"Fraction ":    {Fraction: -1},
		"Fraction":     {Fraction: 0.51},
		"Fraction  ":   {Fraction: math.NaN()},
		"Fraction   ":  {Fraction: 0.000099},
		"Fraction    ": {Fraction: math.SmallestNonzeroFloat64},
		"Jitter":       {Jitter: 1},
		"Jitter ":      {Jitter: -0.1},
		"Failures":     {Failures: -2},
		"MaxBatch":     {MaxBatch: -1},
		"MaxBatch ":    {MaxBatch: math.MaxInt},
		"InFlight":     {InFlight: -1},
		"InFlight ":    {InFlight: 1001},
		"Timeout":      {Timeout: -1},
		"Margin":       {Margin: -1},
	} {
		_, err := renewal.New(silent{}, new(store), &o)
		require.ErrorContains(t, err, "renewal: Options."+trim(field))
	}
	for _, engine := range []schedule.Scheduler{nil, (*wheel.Wheel)(nil)} {
		_, err := renewal.New(engine, new(store), nil)
		require.ErrorContains(t, err, "engine")
	}
	for _, r := range []renewal.Renewer[string]{nil, (*store)(nil)} {
		_, err := renewal.New(silent{}, r, nil)
		require.ErrorContains(t, err, "renewer")
	}
}

func TestTheZeroWatchdogTakesNoLease(t *testing.T) {
	w := new(renewal.Watchdog[int])
	entry, err := w.Register(1, renewal.Grant{TTL: time.Minute, Sent: time.Now()})
	require.EqualError(t, err, "renewal: the Watchdog was not made by New")
	assert.Nil(t, entry)
	assert.Zero(t, w.Stats())
	leases, err := w.Close(t.Context())
	require.EqualError(t, err, "renewal: the Watchdog was not made by New")
	assert.Empty(t, leases)
}

func TestOptionsAtTheirBounds(t *testing.T) {
	for _, o := range []renewal.Options{
		{Fraction: 0.5},
		{Fraction: 0.0001},
		{Failures: -1},
		{Failures: 1},
		{MaxBatch: 1},
		{MaxBatch: 10_000},
		{InFlight: 1},
		{InFlight: 1000},
		{Margin: 1},
		{Jitter: 0.99},
	} {
		_, err := renewal.New(silent{}, new(store), &o)
		require.NoError(t, err, "%+v", o)
	}
	_, err := renewal.New(silent{}, new(store), &renewal.Options{MaxBatch: 10_001})
	require.ErrorContains(t, err, "1 to 10000")
	_, err = renewal.New(silent{}, new(store), &renewal.Options{Fraction: 0.6})
	require.ErrorContains(t, err, "0.0001 to 0.5, got 0.6")
}

func trim(field string) string {
	for field[len(field)-1] == ' ' {
		field = field[:len(field)-1]
	}
	return field
}

func TestBadGrantsAreNamed(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		dog := newDog(t, e, new(store), nil)
		now := time.Now()
		for name, tc := range map[string]struct {
			grant renewal.Grant
			want  string
		}{
			"zero TTL":       {renewal.Grant{Sent: now}, "Grant.TTL"},
			"negative TTL":   {renewal.Grant{TTL: -ttl, Sent: now}, "Grant.TTL"},
			"tiny TTL":       {renewal.Grant{TTL: 5 * time.Millisecond, Sent: now}, "Grant.TTL: a TTL of 5ms is too short"},
			"1 ns TTL":       {renewal.Grant{TTL: 1, Sent: now}, "Grant.TTL"},
			"no Sent":        {renewal.Grant{TTL: ttl}, "Grant.Sent"},
			"Sent to come":   {renewal.Grant{TTL: ttl, Sent: now.Add(1)}, "Grant.Sent"},
			"Until too soon": {renewal.Grant{TTL: ttl, Sent: now, Until: now}, "Grant.Until"},
		} {
			_, err := dog.Register("a", tc.grant)
			require.ErrorContains(t, err, tc.want, name)
			require.NotErrorIs(t, err, renewal.ErrLost, name)
		}
		_, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: now.Add(-life)})
		assert.Equal(t, renewal.Expired, reasonOf(t, err), "a grant that came too late is no lease")
		_, err = dog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Time{}.Add(1)})
		assert.Equal(t, renewal.Expired, reasonOf(t, err), "however long ago")
		_, err = dog.Register("a", renewal.Grant{TTL: ttl, Sent: now.Add(1 - life)})
		require.NoError(t, err)
		forever, err := dog.Register("a", renewal.Grant{TTL: ttl, Sent: now, Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
		require.NoError(t, err)
		assert.True(t, forever.Valid())
		assert.Equal(t, 2, dog.Stats().Held)
	})
}

// A single failure is tolerated only if the lease leaves time for a second try.
func TestALeaseWithoutTimeForASecondTryIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grant := renewal.Grant{TTL: ttl, Sent: time.Now()}
		_, err := newDog(t, silent{}, new(store), &renewal.Options{Fraction: 0.5}).Register("a", grant)
		require.ErrorContains(t, err, "too short")
		_, err = newDog(t, silent{}, new(store), &renewal.Options{Fraction: 0.5, Failures: 1}).Register("a", grant)
		require.NoError(t, err)
		_, err = newDog(t, silent{}, new(store), &renewal.Options{Fraction: 0.45}).Register("a", grant)
		require.NoError(t, err)

		dog := newDog(t, silent{}, new(store), &renewal.Options{Fraction: 0.5})
		grant.Until = grant.Sent.Add(life + 1)
		_, err = dog.Register("a", grant)
		require.ErrorContains(t, err, "too short", "its last nanosecond needs a renewal")
		grant.Until = grant.Sent.Add(life)
		_, err = dog.Register("a", grant)
		require.NoError(t, err, "what is never renewed needs no time for it")
	})
}

// The margin must leave time for an engine's ticks.
func TestTheMarginFollowsTheTick(t *testing.T) {
	coarse, err := wheel.New(&wheel.Options{Tick: time.Second})
	require.NoError(t, err)
	defer coarse.Close()
	_, err = renewal.New(coarse, new(store), &renewal.Options{Margin: time.Second})
	require.ErrorContains(t, err, "Options.Margin must be at least 2.002s")
	dog := newDog(t, coarse, new(store), nil)
	assert.Equal(t, ttl-ttl/100-2002*time.Millisecond, dog.Life(ttl))
	_, err = dog.Register("a", renewal.Grant{TTL: 3 * time.Second, Sent: time.Now()})
	require.ErrorContains(t, err, "too short")
}

func TestACoarseGridDoesNotMakeRenewalsComeAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{Align: time.Hour})
		register(t, dog, "a")
		settle(time.Minute)
		assert.LessOrEqual(t, len(s.seen()), 12)
	})
}

func TestAFullEngineRefusesAndKeepsNothing(t *testing.T) {
	w, err := wheel.New(&wheel.Options{MaxPending: 3})
	require.NoError(t, err)
	defer w.Close()
	dog := newDog(t, w, new(store), nil)
	register(t, dog, "a")
	second := register(t, dog, "b") // a third timer compares the clocks
	_, err = dog.Register("c", renewal.Grant{TTL: ttl, Sent: time.Now()})
	require.ErrorIs(t, err, schedule.ErrFull)
	assert.Equal(t, 2, dog.Stats().Held)
	second.Stop()
	register(t, dog, "c")
}

func TestJitterOnlyEverMakesRenewalsEarlier(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, &renewal.Options{Jitter: 0.5, Align: -1})
		register(t, dog, "a")
		settle(time.Hour)
		calls := s.seen()
		require.Greater(t, len(calls), 400)
		var shortest, longest time.Duration = ttl, 0
		for i := 1; i < len(calls); i++ {
			gap := calls[i].at.Sub(calls[i-1].at)
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		assert.Less(t, shortest, period*55/100)
		assert.GreaterOrEqual(t, shortest, period/2)
		assert.Greater(t, longest, period*95/100)
		assert.LessOrEqual(t, longest, period+slack)
	})
}

func TestHistogram(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), &renewal.Options{Align: period / 2})
		before := dog.Stats().Late
		assert.Zero(t, before.Quantile(0.99), "nothing counted")
		for range 100 {
			register(t, dog, "a")
		}
		settle(period)
		late := dog.Stats().Late
		assert.EqualValues(t, 100, late.Count())
		assert.LessOrEqual(t, late.Quantile(1), slack*9/8+time.Microsecond)
		since := late.Since(before)
		assert.EqualValues(t, 100, since.Count())
		since = late.Since(late)
		assert.Zero(t, since.Count())
	})
}

func TestReasonsHaveWords(t *testing.T) {
	for _, r := range []renewal.Reason{renewal.NotOwned, renewal.Failed, renewal.Expired} {
		assert.NotEmpty(t, r.String())
		assert.NotContains(t, r.String(), "Reason(")
	}
	assert.Equal(t, "Reason(9)", renewal.Reason(9).String())
	err := &renewal.LostError{Reason: renewal.Failed, Err: errIO}
	assert.ErrorContains(t, err, errIO.Error())
	assert.ErrorContains(t, &renewal.LostError{Reason: renewal.Expired}, "deadline")
}
