package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestAUserWithoutPermission(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	withUsers(t, members)
	s := open(t, connectAs(t, "nothing", members...))
	_, errAcquire := s.Acquire(t.Context(), request("k", "a:1", time.Minute))
	_, errWait := s.Wait(t.Context(), request("k", "b:1", time.Minute))
	_, errInspect := s.Inspect(t.Context(), "k")
	for _, err := range []error{errAcquire, errWait, errInspect} {
		require.ErrorContains(t, err, `the user needs the permission readwrite for all keys with the prefix "leasewheel/"`)
	}
	require.ErrorIs(t, errAcquire, driver.ErrNotSent)
	require.ErrorIs(t, errWait, driver.ErrNotSent)

	locks, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: 4 * time.Second}})
	require.NoError(t, err)
	_, err = locks.Mutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrUnavailable)
	assert.Zero(t, locks.Stats().Releasing, "nothing was granted")
	require.NoError(t, locks.Close(t.Context()))
}
