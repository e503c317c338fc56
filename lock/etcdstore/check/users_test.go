package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestAUserWithoutPermission(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	withUsers(t, members)
	s := open(t, connectAs(t, "nothing", members...))
	_, errAcquire := s.Acquire(t.Context(), request("k", "a:1", time.Minute))
	_, errWait := s.Wait(t.Context(), request("k", "b:1", time.Minute), func() {})
	_, errInspect := s.Inspect(t.Context(), "k")
	errSave := s.Save(t.Context(), driver.Lease{Request: request("k", "a:1", time.Minute)}, 1, nil, time.Minute)
	errForget := s.Forget(t.Context(), "k")
	for _, err := range []error{errAcquire, errWait, errInspect, errSave, errForget} {
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

// The permission that the package documents is enough for each method of the store.
func TestAUserWithThePermission(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	withUsers(t, members)
	s := open(t, connectAs(t, "locks", members...))
	held, err := s.Acquire(t.Context(), request("k", "a:1", time.Minute))
	require.NoError(t, err)
	require.NoError(t, s.SetMetadata(t.Context(), held, "m"))
	require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, held))
	got := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), request("k", "b:1", time.Minute), func() {})
		got <- err
	}()
	require.Eventually(t, func() bool { return waiting(t, s, "k") == 1 }, patience, time.Millisecond)
	require.NoError(t, s.Release(t.Context(), held))
	require.NoError(t, <-got)
	keys, _, err := s.List(t.Context(), "", "")
	require.NoError(t, err)
	assert.Equal(t, []string{"k"}, keys)
	require.NoError(t, s.ForceRelease(t.Context(), "k"))

	saver := acquireStateful(t, s, "c:1")
	require.NoError(t, s.Save(t.Context(), saver, 1, nil, time.Minute))
	require.NoError(t, s.Save(t.Context(), saver, 2, nil, time.Minute))
	require.NoError(t, s.Save(t.Context(), saver, 3, nil, time.Hour))
	require.NoError(t, s.Forget(t.Context(), "k"))
}
