package lock_test

import (
	"context"
	"errors"
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

// Another process can take over an exclusive lock with plain terms, and no other lock.
func TestWhatCannotBeExported(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		reentrant := b.reentrant("re")
		inner, _ := b.again(reentrant)
		for want, l := range map[string]lock.Locker{
			"a read-write lock cannot be exported, only":               b.RWMutex("w"),
			"a read-write lock cannot be exported":                     b.RWMutex("r").RLocker(),
			"a semaphore cannot be exported":                           b.Semaphore("s", 2),
			"a batch cannot be exported":                               b.Batch("b", "x"),
			"neither a Multi nor an inner handle of a Reentrant lock":  b.all("m1", "m2"),
			"a lease with a MinHold cannot be exported":                b.With(lock.Terms{MinHold: time.Millisecond}).Mutex("kept"),
			"a lease with a state (Terms.StateTTL) cannot be exported": b.With(lock.Terms{StateTTL: time.Hour}).Mutex("saved"),
			"an inner handle of a Reentrant lock cannot":               nil,
		} {
			h := inner
			if l != nil {
				h = lockAll(t, l)
			} else {
				want = "neither a Multi nor an inner handle of a Reentrant lock"
			}
			_, err := h.Export()
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.ErrorContains(t, err, `lock: export "`+h.Key()+`": `+want)
			err = h.Detach()
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.ErrorContains(t, err, `lock: detach "`+h.Key()+`": `+want)
			require.NoError(t, h.Err(), "it stays held")
			require.NoError(t, h.Unlock(ctx))
		}
		require.NoError(t, reentrant.Unlock(ctx))
	})
}
