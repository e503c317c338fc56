package driver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestModes(t *testing.T) {
	some, none := driver.ModesOf(driver.Exclusive, driver.Members), driver.ModesOf()
	for m := range driver.Mode(255) {
		assert.Equal(t, m == driver.Exclusive || m == driver.Members, some.Has(m), m)
		assert.False(t, none.Has(m), m)
	}
}

func TestClientNamesHideOwners(t *testing.T) {
	// The first digits of the SHA-256 of "abc".
	const abc = "ba7816bf8f01cfea"
	for owner, name := range map[string]string{"abc:secret": abc, "abc:": abc, "abc": abc, "abc:x:y": driver.ClientName("abc:x:z"), "": "e3b0c44298fc1c14"} {
		assert.Equal(t, name, driver.ClientName(owner), owner)
	}
	assert.NotEqual(t, abc, driver.ClientName("abc:x:y"), "only the part behind the last colon is a secret")
}

func TestTTLLimits(t *testing.T) {
	assert.Zero(t, memstore.New().Describe().TTL)
	for _, c := range []struct {
		limits       driver.TTLLimits
		ttl, longest time.Duration
	}{
		{driver.TTLLimits{}, 1500, 1500},
		{driver.TTLLimits{Step: 1000}, 1500, 2000},
		{driver.TTLLimits{Step: 1000}, 2000, 2000},
		{driver.TTLLimits{Slack: 7}, 1500, 1507},
		{driver.TTLLimits{Step: 1000, Shared: true, Slack: 7}, 1500, 3507},
	} {
		assert.Equal(t, c.longest, c.limits.Longest(c.ttl), "%+v", c.limits)
	}
	limits := driver.TTLLimits{Min: 2 * time.Second, Max: 10 * time.Second}
	require.NoError(t, limits.Check(2*time.Second))
	require.NoError(t, limits.Check(10*time.Second))
	require.EqualError(t, limits.Check(time.Second), "lock: bad TTL: the TTLs of the store are at least 2s, got 1s")
	require.EqualError(t, limits.Check(11*time.Second), "lock: bad TTL: the TTLs of the store are at most 10s, got 11s")
	require.ErrorIs(t, limits.Check(time.Second), driver.ErrBadTTL)
	require.NoError(t, driver.TTLLimits{}.Check(time.Nanosecond))
}
