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
	"github.com/leasewheel/leasewheel/renewal"
)

func TestTerms(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		fixed, err := b.With(lock.Terms{TTL: 10 * time.Second, Fixed: true}).Mutex("fixed").Lock(ctx)
		require.NoError(t, err)
		limited, err := b.With(lock.Terms{MaxHold: time.Minute}).Mutex("limited").Lock(ctx)
		require.NoError(t, err)
		odd, err := b.With(lock.Terms{TTL: 10*time.Second + 999*time.Microsecond}).Mutex("odd").Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, 10*time.Second, b.mem.ExpiresIn("odd"), "whole milliseconds, never more than asked")
		require.NoError(t, odd.Unlock(ctx))

		start := time.Now()
		<-fixed.Done()
		assert.InDelta(t, 9.8, time.Since(start).Seconds(), 0.1)
		require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		<-limited.Done()
		assert.InDelta(t, 60, time.Since(start).Seconds(), 0.1)
		require.ErrorIs(t, limited.Err(), lock.ErrLost)
		require.ErrorIs(t, fixed.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, limited.Unlock(ctx), lock.ErrLost)
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

// A lease that is not renewed needs no time for that.
func TestAFixedLeaseMayBeShort(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		_, err := b.With(lock.Terms{TTL: lock.MinTTL}).Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		h, err := b.With(lock.Terms{TTL: lock.MinTTL, Fixed: true}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		start := time.Now()
		<-h.Done()
		assert.InDelta(t, 77, time.Since(start).Milliseconds(), 10)
		assert.Zero(t, b.calls(locktest.Renew))
	})
	o := &lock.Options{Renewal: renewal.Options{Margin: time.Second}}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		_, err := b.With(lock.Terms{TTL: time.Second, Fixed: true}).Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		require.ErrorContains(t, err, "margin")
	})
}

// A fixed lease that was handed over is asked for again, to last its full TTL. If no
// answer comes to that, the request may be executed when the lock was given up.
func TestAFixedLeaseThatIsNotAnsweredLeavesATombstone(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		store := &forgetful{agedStore: agedStore{b.mem, 20 * time.Second}}
		b.store.Store = store
		h, err := b.With(lock.Terms{Fixed: true}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		synctest.Wait()
		_, err = b.mem.Acquire(ctx, *store.lost)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Zero(t, b.mem.Len())
	})
}

// forgetful is an agedStore that the first request to acquire does not reach.
type forgetful struct {
	agedStore
	lost *lock.Request
}

func (s *forgetful) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	if s.lost == nil {
		s.lost = &r
		return lock.Lease{}, errIO
	}
	return s.agedStore.Acquire(ctx, r)
}
