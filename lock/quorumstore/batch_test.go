package quorumstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

// A quorum of three with one member down holds batches, alone and together with batches
// of another store.
func TestBatchesOnAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
		quorum, err := quorumstore.New(stores[0], stores[1], stores[2])
		require.NoError(t, err)
		client, err := lock.New(quorum, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		other, err := lock.New(memstore.New(), nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		require.NoError(t, stores[1].Close(), "the member is down")

		h := lockAll(t, lock.Multi(client.Batch("g", "a", "b"), client.Batch("g", "c"), other.Batch("g", "a")))
		settle(time.Hour)
		assert.True(t, h.Valid())
		_, err = client.Batch("g", "b", "x").TryLock(ctx)
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		inside, stop := h.Context(ctx)
		defer stop()
		inner, err := client.Batch("g", "b").Lock(inside)
		require.NoError(t, err)
		require.NoError(t, lockAll(t, client.Batch("g", "x")).Unlock(ctx))

		waits := make(chan *lock.Held)
		go func() {
			next, err := client.Batch("g", "b", "x").Lock(ctx)
			assert.NoError(t, err)
			waits <- next
		}()
		require.NoError(t, h.Unlock(ctx))
		settle(time.Minute)
		require.Empty(t, waits, "the reentered batch is still held")
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, (<-waits).Unlock(ctx))
		settle(time.Minute)
		for _, s := range stores {
			assert.Zero(t, s.Len())
		}
	})
}
