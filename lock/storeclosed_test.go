package lock_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// The client that is closed first closes the store. The other one says so.
func TestTwoClientsOfOneStore(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		first, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		h := b.lock("k")
		require.NoError(t, first.Close(ctx))

		_, err = b.Mutex("j").Lock(ctx)
		require.EqualError(t, err, `lock: "j": the store is closed`)
		_, err = b.Mutex("j").TryLock(ctx)
		require.EqualError(t, err, `lock: "j": the store is closed`)
		_, err = b.Inspect(ctx, "k")
		require.ErrorIs(t, err, driver.ErrStoreClosed)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NotContains(t, err.Error(), "client")
		require.NoError(t, h.Err(), "until its deadline")
		err = h.Unlock(ctx)
		require.ErrorContains(t, err, "the store is closed")
		require.NotContains(t, err.Error(), "client")

		synctest.Wait() // the client has given up the release of k, which Unlock has reported
		require.NoError(t, b.Close(context.Background()))
		_, err = b.Mutex("j").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		assert.NotErrorIs(t, err, driver.ErrStoreClosed, "now it is the client")
	})
}
