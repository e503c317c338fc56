package lock_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// again enters the lock of a handle once more.
func (b *bench) again(h *lock.Held) (*lock.Held, context.Context) {
	b.t.Helper()
	inside, stop := h.Context(ctx)
	b.t.Cleanup(stop)
	inner, err := b.Reentrant(h.Key()).Lock(inside)
	require.NoError(b.t, err)
	require.NotSame(b.t, h, inner, "a handle of its own")
	return inner, inside
}

func (b *bench) reentrant(key string) *lock.Held {
	b.t.Helper()
	h, err := b.Reentrant(key).Lock(ctx)
	require.NoError(b.t, err)
	return h
}

func TestAReentrantIsEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, inside := b.again(outer)
		deepest, _ := b.again(inner)
		tried, err := b.Reentrant("k").TryLock(inside)
		require.NoError(t, err)
		assert.Equal(t, 1, b.calls(locktest.Acquire), "the store sees one acquire")
		assert.Equal(t, 1, b.Stats().Renewal.Held, "of one lease")
		for _, h := range []*lock.Held{inner, deepest, tried} {
			assert.Equal(t, "k", h.Key())
			assert.Equal(t, outer.Token(), h.Token())
			assert.Equal(t, outer.Deadline(), h.Deadline())
			assert.Equal(t, outer.String(), h.String())
		}
		settle(time.Hour)

		for _, h := range []*lock.Held{tried, deepest, inner} {
			require.True(t, h.Valid())
			require.NoError(t, h.Err())
			done := h.Done()
			require.NoError(t, h.Unlock(ctx))
			assert.True(t, closed(done))
			assert.False(t, h.Valid())
			assert.Zero(t, h.Deadline())
			require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
			require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld, "a second time")
			assert.True(t, outer.Valid())
		}
		assert.Zero(t, b.calls(locktest.Release))
		assert.Equal(t, 1, b.mem.Len())
		require.NoError(t, outer.Unlock(ctx))
		assert.Equal(t, 1, b.calls(locktest.Release), "and one release")
		assert.Zero(t, b.mem.Len())
	})
}

// The last Unlock releases the lock, whichever handle it is.
func TestHandlesOfAReentrantAreUnlockedInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, inside := b.again(outer)
		done := outer.Done()
		require.NoError(t, outer.Unlock(ctx))
		require.ErrorIs(t, outer.Err(), lock.ErrNotHeld)
		assert.False(t, outer.Valid())
		assert.Zero(t, outer.Deadline())
		require.ErrorIs(t, outer.Unlock(ctx), lock.ErrNotHeld)
		assert.False(t, closed(done), "the lock is held")
		require.NoError(t, inside.Err(), "for those who are inside")

		settle(time.Hour)
		require.NoError(t, inner.Err())
		assert.Equal(t, 1, b.mem.Len())
		require.NoError(t, inner.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		assert.True(t, closed(done))
		<-inside.Done()
		require.ErrorIs(t, context.Cause(inside), lock.ErrNotHeld)
	})
}

func TestOnlyItsContextEntersAReentrant(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inside, stop := outer.Context(ctx)
		defer stop()
		taken := func(l lock.Locker, c context.Context) {
			t.Helper()
			_, err := l.TryLock(c)
			var held *lock.HeldError
			require.ErrorAs(t, err, &held)
			short, cancel := context.WithTimeout(c, time.Second)
			defer cancel()
			_, err = l.Lock(short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		taken(b.Reentrant("k"), ctx)
		_, err := b.Mutex("k").Lock(inside)
		require.ErrorIs(t, err, lock.ErrHeldByContext, "a Mutex never enters again")
		other, err := lock.New(locktest.Plain(b.mem), nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		taken(other.Reentrant("k"), inside) // another client is another holder

		elsewhere, err := b.Reentrant("k2").TryLock(inside)
		require.NoError(t, err, "another key is another lock")
		assert.Equal(t, 2, b.mem.Len())
		require.NoError(t, elsewhere.Unlock(ctx))

		// A Reentrant enters the lock of a Mutex.
		mutex := b.lock("m")
		inner, _ := b.again(mutex)
		require.NoError(t, mutex.Unlock(ctx))
		assert.True(t, inner.Valid())
		require.NoError(t, inner.Unlock(ctx))
	})
}

// A Lock that races with the last Unlock either enters the lock or gets an error.
func TestEnteringRacesWithTheLastUnlock(t *testing.T) {
	const rounds, goroutines = 50, 3
	bubble(t, func(t *testing.T, b *bench) {
		for range rounds {
			outer := b.reentrant("k")
			inside, stop := outer.Context(ctx)
			inside = context.WithoutCancel(inside)
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for {
						inner, err := b.Reentrant("k").Lock(inside)
						if err != nil {
							assert.ErrorIs(t, err, lock.ErrNotHeld)
							return
						}
						assert.True(t, inner.Valid())
						assert.NoError(t, inner.Unlock(ctx))
					}
				})
			}
			wg.Go(func() { assert.NoError(t, outer.Unlock(ctx)) })
			wg.Wait()
			stop()
			require.Zero(t, b.mem.Len())
		}
		assert.Equal(t, rounds, b.calls(locktest.Acquire))
		assert.Equal(t, rounds, b.calls(locktest.Release))
	})
}

// Unlock of an inner handle frees its resources, before the lock is released.
func TestInnerHandlesLeaveNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inside, stop := outer.Context(ctx)
		defer stop()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 20_000 {
			h, err := b.Reentrant("k").Lock(inside)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
		require.NoError(t, outer.Unlock(ctx))
	})
}

// An inner handle has no terms.
func TestEnteringAgainLeavesTheLeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inside, stop := outer.Context(ctx)
		defer stop()
		settle(time.Second)
		left, deadline := b.mem.ExpiresIn("k"), outer.Deadline()
		brief := b.With(lock.Terms{TTL: time.Second, Fixed: true}).Reentrant("k")
		inner, err := brief.Lock(inside)
		require.NoError(t, err)
		assert.Equal(t, left, b.mem.ExpiresIn("k"))
		assert.Equal(t, deadline, inner.Deadline())
		settle(time.Minute)
		assert.True(t, inner.Valid())
		require.NoError(t, inner.Unlock(ctx))
		settle(time.Minute)
		assert.True(t, outer.Valid())

		_, err = b.With(lock.Terms{TTL: -1}).Reentrant("k").Lock(inside)
		require.ErrorIs(t, err, lock.ErrBadTTL, "wrong terms are refused all the same")
	})
	bubble(t, func(t *testing.T, b *bench) {
		outer, err := b.With(lock.Terms{MaxHold: time.Minute}).Reentrant("k").Lock(ctx)
		require.NoError(t, err)
		settle(50 * time.Second)
		inner, _ := b.again(outer)
		start := time.Now()
		<-inner.Done()
		assert.InDelta(t, 10, time.Since(start).Seconds(), 0.1, "nor does it last longer")
	})
}
