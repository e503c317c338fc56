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
)

func TestADetachedLockIsNeitherRenewedNorReleased(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		h := b.lock("k")
		inner, stop := h.Context(ctx)
		defer stop()
		require.NoError(t, h.Detach())
		synctest.Wait()
		require.ErrorIs(t, context.Cause(inner), lock.ErrDetached)
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "the store still has it")
		renewals, releases := b.calls(locktest.Renew), b.calls(locktest.Release)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrDetached)
		require.ErrorIs(t, h.Detach(), lock.ErrDetached)
		require.ErrorIs(t, h.Renew(ctx, 0), lock.ErrNotHeld)
		require.NoError(t, b.Close(ctx))
		assert.Equal(t, renewals, b.calls(locktest.Renew))
		assert.Equal(t, releases, b.calls(locktest.Release))
	})
}

func TestDoLeavesADetachedLockToOthers(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		detach := func(_ context.Context, held *lock.Held) error { return held.Detach() }
		require.NoError(t, lock.Do(ctx, b.Mutex("k"), detach))
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "the store still has it")
	})
}

// All handles of a reentrant lock share the lease.
func TestDetachOfAReentrantLock(t *testing.T) {
	for _, inner := range []bool{false, true} {
		waiting(t, nil, func(t *testing.T, b *bench) {
			ctx := context.Background()
			first := b.reentrant("k")
			second, _ := b.again(first)
			text := export(t, second)
			detached, other := first, second
			if inner {
				detached, other = second, first
			}
			require.NoError(t, detached.Detach())
			synctest.Wait()
			for _, h := range []*lock.Held{first, second} {
				require.ErrorIs(t, h.Err(), lock.ErrDetached)
				<-h.Done()
			}
			releases := b.calls(locktest.Release)
			require.ErrorIs(t, other.Unlock(ctx), lock.ErrDetached)
			settle(time.Second)
			assert.Equal(t, releases, b.calls(locktest.Release))
			resumed := resume(t, b.Client, text)
			require.NoError(t, resumed.Unlock(ctx))
			assert.Zero(t, b.mem.Len())
		})
	}
}

// Detach of a Multi that has ended leaves the other locks to Unlock.
func TestDetachOfAMultiThatHasEnded(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		for _, end := range []func(h *lock.Held){
			func(h *lock.Held) { _ = h.Handles()[0].Unlock(ctx) },
			func(h *lock.Held) { b.mem.Delete("a"); <-h.Done() },
		} {
			h := lockAll(t, b.all("a", "b"))
			end(h)
			err := h.Detach()
			require.ErrorIs(t, err, h.Err())
			require.ErrorContains(t, err, "detach")
			require.NoError(t, h.Handles()[1].Err(), "the other lock is still held")
			require.Error(t, h.Unlock(ctx))
			assert.Zero(t, b.mem.Len())
			require.ErrorIs(t, h.Detach(), lock.ErrNotHeld)
		}
	})
}
