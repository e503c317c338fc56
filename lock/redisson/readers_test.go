package redisson

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// A renewal of a JVM sets the expiry of the lock to its watchdog timeout, whatever other readers have.
func TestALongReaderIsRefusedBeforeAnyIO(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { assert.NoError(t, rdb.Close()) }()
	for want, o := range map[string]Options{
		"at most 30s (Options.WatchdogTTL), got 30.001s": {},
		"at most 10s (Options.WatchdogTTL), got 30.001s": {WatchdogTTL: 10 * time.Second},
	} {
		s := newStore(t, rdb, &o)
		r := request(ann, "the key", driver.Read)
		r.TTL = defaultWatchdogTTL + time.Millisecond
		_, acquired := s.Acquire(t.Context(), r)
		_, waited := s.Wait(t.Context(), r, func() {})
		renewed := s.Renew(t.Context(), []driver.Lease{{Request: r}}, make([]renewal.Outcome, 1))
		for _, err := range []error{acquired, waited, renewed} {
			require.ErrorIs(t, err, driver.ErrBadTTL)
			require.NotErrorIs(t, err, driver.ErrUnavailable)
			assert.ErrorContains(t, err, `"the key"`)
			assert.ErrorContains(t, err, want)
		}
		r.TTL = s.options.WatchdogTTL
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, driver.ErrUnavailable, "it is sent")
		r.Mode, r.TTL = driver.Write, time.Hour
		_, err = s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, driver.ErrUnavailable, "a writer has no other holders")
	}
}

func TestAHeldReaderGetsNoLongLease(t *testing.T) {
	t.Parallel()
	s, rdb := own(t, Options{})
	name := s.options.Prefix + "k"
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close(context.Background())) }()
	_, err = c.With(lock.Terms{TTL: time.Hour}).RWMutex("k").RLock(t.Context())
	require.ErrorIs(t, err, lock.ErrBadTTL)
	require.NotErrorIs(t, err, lock.ErrUnavailable)

	h, err := c.RWMutex("k").RLock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, h.Renew(t.Context(), time.Hour), lock.ErrBadTTL)
	assert.True(t, h.Valid())
	require.NoError(t, h.Renew(t.Context(), defaultWatchdogTTL))
	assert.LessOrEqual(t, rdb.PTTL(t.Context(), name).Val(), defaultWatchdogTTL)
	require.NoError(t, h.Unlock(t.Context()))
}

// The client of a writer with a long lease may believe in that lease until its end, even if its later
// renewals were shorter.
func TestAWriterWithALongLeaseDoesNotBecomeAReader(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Hour, defaultWatchdogTTL} { // of the last renewal
		s, rdb := own(t, Options{})
		name := s.options.Prefix + "k"
		c, err := lock.New(s, nil)
		require.NoError(t, err)
		m := c.RWMutex("k")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Renew(t.Context(), time.Hour))
		require.NoError(t, h.Renew(t.Context(), ttl))
		_, err = m.Downgrade(t.Context(), h)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
		assert.ErrorContains(t, err, "Options.WatchdogTTL")
		require.NoError(t, c.Close(context.Background()))
		assert.Zero(t, rdb.Exists(t.Context(), name).Val(), "the lock is released")
	}
}
