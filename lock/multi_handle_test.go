package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestAMultiHoldsAllOfItsLocks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("b", "a", "c"))
		assert.Equal(t, 3, b.mem.Len())
		settle(time.Hour)
		assert.True(t, h.Valid())
		require.NoError(t, h.Err())
		assert.False(t, closed(h.Done()))
		assert.Equal(t, "b, a, c", h.Key())
		assert.Equal(t, `exclusive lease of "b", exclusive lease of "a", exclusive lease of "c"`, h.String())
		assert.Zero(t, h.Token())
		deadline := h.Deadline()
		for i, m := range h.Handles() {
			assert.Equal(t, []string{"b", "a", "c"}[i], m.Key(), "in the order in which they were named")
			assert.NotZero(t, m.Token())
			assert.False(t, m.Deadline().Before(deadline), "the first to end decides")
			assert.Equal(t, []*lock.Held{m}, m.Handles())
		}
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		assert.False(t, h.Valid())
		assert.True(t, closed(h.Done()))
		assert.Zero(t, h.Deadline())
		assert.Equal(t, lock.ErrNotHeld, h.Err())
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

// After a panic of a store, the caller has no handle. The Multi therefore releases the locks
// that it has acquired.
func TestAMultiHoldsNothingAfterAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		got := b.Mutex("a")
		bad, err := lock.New((&locktest.Faulty{Before: panics(locktest.Acquire)}).Over(memstore.New()), nil)
		require.NoError(t, err)
		defer bad.Close(ctx)
		assert.PanicsWithValue(t, "oops", func() { _, _ = lock.Multi(got, bad.Mutex("b")).Lock(ctx) })
		assert.PanicsWithValue(t, "oops", func() { _, _ = lock.Multi(got, bad.Mutex("b")).TryLock(ctx) })
		assert.Zero(t, b.Stats().Renewal.Held)
		assert.Zero(t, b.mem.Len())
	})
}

func TestTheLossOfOneEndsTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b", "c"))
		scope, stop := h.Context(ctx)
		defer stop()
		b.mem.Delete("b")
		<-h.Done()
		assert.False(t, h.Valid())
		require.ErrorIs(t, h.Err(), lock.ErrLost)
		require.ErrorContains(t, h.Err(), `"b"`)
		assert.Zero(t, h.Deadline())
		<-scope.Done()
		require.ErrorIs(t, context.Cause(scope), lock.ErrLost)
		before := h.Err()

		settle(time.Hour)
		assert.Equal(t, 2, b.mem.Len(), "the others stay until the holder has stopped")
		assert.True(t, h.Handles()[0].Valid())
		b.mem.Delete("c")
		settle(time.Hour)
		assert.Equal(t, before, h.Err(), "the answer never changes")
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
		assert.Zero(t, b.mem.Len())
		assert.Equal(t, before, h.Err())
	})
}

func TestAMultiLooksAtTheClock(t *testing.T) {
	bubbleWith(t, &lock.Options{Scheduler: new(frozen)}, func(t *testing.T, b *bench) {
		one, two := lockAll(t, b.all("a", "b")), lockAll(t, b.all("c", "d"))
		time.Sleep(ttl)
		assert.False(t, one.Valid())
		require.ErrorIs(t, one.Err(), lock.ErrLost)
		assert.True(t, closed(two.Done()))
		require.ErrorIs(t, two.Unlock(ctx), lock.ErrLost)
	})
	bubbleWith(t, &lock.Options{Scheduler: new(frozen)}, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b"))
		time.Sleep(ttl)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, h.Err(), lock.ErrLost, "the loss came first")
	})
}

func TestAMultiOverSeveralStores(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		mem := memstore.New()
		other, err := lock.New(locktest.Plain(mem), &lock.Options{Terms: lock.Terms{TTL: time.Second}})
		require.NoError(t, err)
		h := lockAll(t, lock.Multi(b.Mutex("a"), other.Mutex("a")))
		settle(time.Minute)
		assert.True(t, h.Valid())
		assert.Equal(t, 1, mem.Len())
		inside, stop := h.Context(ctx)
		defer stop()
		require.NoError(t, other.Close(ctx))
		<-inside.Done()
		require.ErrorIs(t, h.Err(), lock.ErrClosed)
		_, err = b.Reentrant("a").Lock(context.WithoutCancel(inside))
		require.ErrorIs(t, err, lock.ErrClosed, "the whole has ended")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrClosed)
		assert.Zero(t, b.mem.Len()+mem.Len())
	})
}

func TestUnlockingAMemberEndsTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b"))
		require.NoError(t, h.Handles()[1].Unlock(ctx))
		synctest.Wait()
		assert.True(t, closed(h.Done()))
		require.EqualError(t, h.Err(), `lock: "b": not held`)
		require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
		require.EqualError(t, h.Unlock(ctx), `lock: unlock "b": not held`)
		assert.Zero(t, b.mem.Len())
	})
}

func TestAMultiAndReentrants(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.reentrant("a")
		inside, stop := a.Context(ctx)
		defer stop()
		both := lock.Multi(b.Reentrant("a"), b.Reentrant("b"))
		h, err := both.Lock(inside)
		require.NoError(t, err, "a is entered again, b is got")
		assert.Equal(t, 2, b.calls(locktest.Acquire))

		deep, stopDeep := h.Context(inside)
		defer stopDeep()
		again, err := both.Lock(deep)
		require.NoError(t, err, "the context has the ownership of all")
		assert.Equal(t, 2, b.calls(locktest.Acquire))
		require.NoError(t, again.Unlock(ctx))
		assert.True(t, h.Valid())

		b.mem.Delete("a")
		<-h.Done()
		_, err = b.Reentrant("b").Lock(context.WithoutCancel(deep))
		require.ErrorIs(t, err, lock.ErrLost, "what is lost is the whole")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, a.Unlock(ctx), lock.ErrLost)
		assert.Zero(t, b.mem.Len())

		// If a member cannot be acquired, the member that was entered keeps its other handle.
		a = b.reentrant("a")
		inside, stop = a.Context(ctx)
		defer stop()
		b.lock("b")
		_, err = both.TryLock(inside)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.True(t, a.Valid())
		require.NoError(t, a.Unlock(ctx))
		assert.Equal(t, 1, b.mem.Len())
	})
}

func TestAMultiUnlocksItsMembersAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint(i))
		}
		h := lockAll(t, b.all(keys...))
		b.loseRequests(hang(locktest.Release))
		start := time.Now()
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorContains(t, err, `unlock "0"`)
		require.ErrorContains(t, err, `unlock "19"`)
		assert.Equal(t, 3*time.Second, time.Since(start))
		b.heal()
		settle(5 * time.Second)
		assert.Zero(t, b.mem.Len())
	})
}

// The deadline of a Multi is the earliest deadline of its members.
func TestAMultiEndsWithItsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		short := b.With(lock.Terms{TTL: ttl / 2})
		for _, locks := range [][]lock.Locker{
			{short.Mutex("a"), b.Mutex("b"), b.Mutex("c")},
			{b.Mutex("a"), short.Mutex("b"), b.Mutex("c")},
			{b.Mutex("a"), b.Mutex("b"), short.Mutex("c")},
		} {
			h := lockAll(t, lock.Multi(locks...))
			assert.Less(t, time.Until(h.Deadline()), ttl/2)
			require.NoError(t, h.Unlock(ctx))
		}
	})
}
