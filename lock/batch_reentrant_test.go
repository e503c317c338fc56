package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// memstoreClient returns a client with its own store. It must be called in the bubble of the
// test.
func memstoreClient(t *testing.T) *lock.Client {
	t.Helper()
	c, err := lock.New(memstore.New(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// inside returns the context of a handle.
func inside(parent context.Context, t *testing.T, h *lock.Held) context.Context {
	t.Helper()
	inside, stop := h.Context(parent)
	t.Cleanup(stop)
	return inside
}

func TestABatchIsEnteredAgain(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		outer := lockAll(t, b.Batch("g", "a", "b", "c"))
		in := inside(ctx, t, outer)
		asked := b.calls(locktest.Acquire) + b.calls(locktest.Wait)
		all, err := b.Batch("g", "c", "b", "a").Lock(in)
		require.NoError(t, err)
		part, err := b.Batch("g", "b").TryLock(in)
		require.NoError(t, err)
		deepest, err := b.Batch("g", "b").Lock(inside(in, t, part))
		require.NoError(t, err)
		assert.Equal(t, asked, b.calls(locktest.Acquire)+b.calls(locktest.Wait), "without a word to the store")
		assert.Equal(t, 1, b.Stats().Renewal.Held)
		for _, h := range []*lock.Held{all, part, deepest} {
			assert.Equal(t, outer.Token(), h.Token())
			assert.Equal(t, "g", h.Key())
			assert.Equal(t, []*lock.Held{h}, h.Handles())
		}
		assert.Equal(t, []string{"a", "b", "c"}, all.Members())
		assert.Equal(t, []string{"b"}, part.Members())

		require.NoError(t, outer.Unlock(ctx))
		settle(time.Hour)
		require.NoError(t, all.Unlock(ctx))
		require.NoError(t, part.Unlock(ctx))
		assert.True(t, deepest.Valid())
		_, err = b.Batch("g", "a").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "the lease is held as a whole until its last handle goes")
		require.NoError(t, deepest.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		assert.Equal(t, 1, b.calls(locktest.Release))
		_, err = b.Batch("g", "a").Lock(in)
		require.ErrorIs(t, err, lock.ErrNotHeld)
	})
}

func TestOnlyItsContextEntersABatch(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := lockAll(t, b.Batch("g", "a"))
		in := inside(ctx, t, h)
		_, err := b.Batch("g", "a").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		other, err := lock.New(b.store, nil)
		require.NoError(t, err)
		_, err = other.Batch("g", "a").TryLock(in)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "another client is another holder")
		entered, err := b.With(lock.Terms{TTL: time.Minute}).Batch("g", "a").TryLock(in)
		require.NoError(t, err, "one that With made is not")
		require.NoError(t, entered.Unlock(ctx))
		separate, err := b.Batch("g", "z").Lock(in)
		require.NoError(t, err, "others are got, not entered")
		assert.Greater(t, separate.Token(), h.Token())
		require.NoError(t, h.Unlock(ctx))
		assert.True(t, separate.Valid())
		require.NoError(t, separate.Unlock(ctx))
	})
}

// If several leases of the context hold the members of a batch, the batch is a handle of all of
// them.
func TestABatchWithinSeveral(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ab := lockAll(t, b.Batch("g", "a", "b"))
		inAB := inside(ctx, t, ab)
		cd, err := b.Batch("g", "c", "d").Lock(inAB)
		require.NoError(t, err)
		in := inside(inAB, t, cd)
		both, err := b.Batch("g", "b", "c").Lock(in)
		require.NoError(t, err)
		assert.Equal(t, "g", both.Key())
		assert.Equal(t, []string{"b", "c"}, both.Members())
		assert.Len(t, both.Handles(), 2)
		assert.Zero(t, both.Token(), "they have two")
		deeper, err := b.Batch("g", "b", "c").Lock(inside(ctx, t, both))
		require.NoError(t, err, "its context has both")
		require.NoError(t, deeper.Unlock(ctx))
		require.NoError(t, cd.Unlock(ctx))
		require.NoError(t, ab.Unlock(ctx))
		settle(time.Hour)
		assert.True(t, both.Valid())
		assert.Equal(t, 2, b.Stats().Renewal.Held)
		_, err = b.Batch("g", "a").Lock(in)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.NoError(t, both.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
	})
}

// Two holders of a part that ask for the whole batch would wait for each other. They get an
// error instead.
func TestABatchThatIsPartlyHeldIsRefused(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		a, c := lockAll(t, b.Batch("g", "a")), lockAll(t, b.Batch("g", "b"))
		asked := b.calls(locktest.Acquire) + b.calls(locktest.Wait)
		for first, in := range map[string]context.Context{"b": inside(ctx, t, a), "a": inside(ctx, t, c)} {
			for _, get := range []func(context.Context) (*lock.Held, error){b.Batch("g", "a", "b", "x").Lock, b.Batch("g", "a", "b", "x").TryLock} {
				_, err := get(in)
				require.ErrorIs(t, err, lock.ErrPartlyHeld)
				require.NotErrorIs(t, err, lock.ErrNotAcquired)
				require.ErrorContains(t, err, `"g"`)
				require.ErrorContains(t, err, `, but not all: it lacks 2 of 3, first "`+first+`"`)
			}
		}
		assert.Equal(t, asked, b.calls(locktest.Acquire)+b.calls(locktest.Wait))
		require.NoError(t, a.Unlock(ctx))
		require.NoError(t, c.Unlock(ctx))
		synctest.Wait()
		assert.Zero(t, b.mem.Len(), "no handle was left over")
	})
}

// If one of the entered leases is lost, the others are left again.
func TestABatchWithinSeveralOfWhichOneIsLost(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ab := lockAll(t, b.Batch("g", "a", "b"))
		in := inside(ctx, t, ab)
		b.mem.Delete("g")
		settle(ttl / 2)
		require.ErrorIs(t, ab.Err(), lock.ErrLost)
		cd, err := b.Batch("g", "c", "d").Lock(inside(context.WithoutCancel(in), t, ab))
		require.ErrorIs(t, err, lock.ErrNotAcquired, "the context has ended")
		require.Nil(t, cd)
		cd, err = b.Batch("g", "c", "d").Lock(context.WithoutCancel(in))
		require.NoError(t, err)
		both := inside(context.WithoutCancel(in), t, cd)
		_, err = b.Batch("g", "b", "c").Lock(both)
		require.ErrorIs(t, err, lock.ErrLost)
		require.NoError(t, cd.Unlock(ctx))
		require.ErrorIs(t, ab.Unlock(ctx), lock.ErrLost)
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}
