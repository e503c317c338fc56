package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// keptFor returns the lease with an instant until which its release keeps the lock taken.
func keptFor(l driver.Lease, keep time.Duration) driver.Lease {
	l.Attrs = &driver.Attrs{Metadata: l.Metadata(), KeepUntil: time.Now().Add(keep)}
	return l
}

// A kept lock has the form of a held one, so that clients of older versions find it taken. Its
// owner is one that no request can have.
func TestAKeptLockLooksHeld(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	r := request("k")
	r.Attrs = &driver.Attrs{Metadata: "host 7"}
	l := acquire(t, s, r)
	require.NoError(t, s.Release(t.Context(), keptFor(l, time.Hour)))
	value := rdb.Get(t.Context(), s.lockKey("k")).Val()
	assert.Equal(t, fmt.Sprintf("{kept} %d", l.Token), value)
	assert.Greater(t, rdb.PTTL(t.Context(), s.lockKey("k")).Val(), 50*time.Minute)
	assert.Equal(t, []renewal.Outcome{renewal.Lost}, renew(t, s, l))

	taken := request("k")
	taken.Owner = keptOwner
	_, err := s.Acquire(t.Context(), taken)
	require.ErrorContains(t, err, "brace")
	require.ErrorContains(t, s.Release(t.Context(), driver.Lease{Request: taken, Token: l.Token}), "brace")
	assert.Equal(t, value, rdb.Get(t.Context(), s.lockKey("k")).Val())
}

// A server that is out of memory must keep the lock: a release that fails would free it after
// its TTL.
func TestAFullServerKeepsALock(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, request("k"))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	require.NoError(t, s.Release(t.Context(), keptFor(l, time.Hour)))
	info, err := s.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Positive(t, info.FreeIn)
}
