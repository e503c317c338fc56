package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A Multi is one lock, also if it has to wait and gives its locks back meanwhile.
func TestHooksSeeAMultiAsOneLock(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		taken, last := b.taken("a"), b.taken("b")
		m := lock.Multi(b.Mutex("a"), b.Mutex("b"))
		_, err := m.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		calls := o.take()
		require.Len(t, calls, 1)
		assert.Equal(t, lock.OutcomeHeldByOther, calls[0].Outcome)
		assert.Equal(t, "a, b", calls[0].Key)

		time.AfterFunc(time.Second, func() { _ = b.mem.Release(ctx, taken) })
		time.AfterFunc(2*time.Second, func() { _ = b.mem.Release(ctx, last) })
		h := lockAll(t, m)
		assert.Equal(t, []string{"waiting multi", "acquired multi"}, o.names())
		require.NoError(t, h.Handles()[1].Unlock(ctx))
		assert.Equal(t, []string{"released multi"}, o.names(), "unlocking one ends the whole")
		require.NoError(t, h.Handles()[0].Unlock(ctx))
		assert.Empty(t, o.names())

		h = lockAll(t, m)
		b.mem.Delete("b")
		<-h.Done()
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		calls = o.take()
		require.Len(t, calls, 2)
		assert.Equal(t, "lost", calls[1].hook)
		require.ErrorIs(t, calls[1].Err, lock.ErrLost)
	})
}

// The same holds for locks within WaitAtMost, also if they are a Multi themselves.
func TestLocksOfAMultiReportNothing(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		taken := b.taken("b")
		time.AfterFunc(time.Second, func() { _ = b.mem.Release(ctx, taken) })
		m := lock.Multi(lock.WaitAtMost(b.Mutex("a"), time.Minute), lock.WaitAtMost(b.all("b", "c"), time.Minute))
		h := lockAll(t, m)
		require.NoError(t, h.Unlock(ctx))
		calls := o.take()
		require.Len(t, calls, 3)
		for i, hook := range []string{"waiting", "acquired", "released"} {
			assert.Equal(t, hook, calls[i].hook)
			assert.Equal(t, lock.KindMulti, calls[i].Kind)
			assert.Equal(t, "a, b, c", calls[i].Key)
		}

		m = lock.Multi(lock.WaitAtMost(b.all("b", "c"), 0))
		h, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())

		require.NoError(t, lockAll(t, lock.WaitAtMost(b.Mutex("a"), time.Minute)).Unlock(ctx))
		assert.Equal(t, []string{"acquired mutex", "released mutex"}, o.names(), "it is in no Multi")
	})
}

// The end of WaitAtMost is no end of the caller's ctx: the caller answers 409.
func TestHooksAreToldOfTheEndOfWaitAtMost(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		b.taken("k")
		for _, l := range []lock.Locker{b.Mutex("k"), lock.Multi(b.Mutex("a"), b.Mutex("k"))} {
			_, err := lock.WaitAtMost(l, time.Second).Lock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			calls := o.take()
			require.Len(t, calls, 2)
			assert.Equal(t, lock.OutcomeWaitLimit, calls[1].Outcome)
			assert.Equal(t, time.Second, calls[1].Waited)
		}
	})
}

func TestAMultiReportsToTheClientOfItsFirstLock(t *testing.T) {
	hooked(t, lock.Terms{}, false, func(t *testing.T, b *bench, o *hookLog) {
		other, err := lock.New(memstore.New(), nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		require.NoError(t, lockAll(t, lock.Multi(other.Mutex("a"), b.Mutex("b"))).Unlock(ctx))
		assert.Empty(t, o.names())
		require.NoError(t, lockAll(t, lock.Multi(b.Mutex("b"), other.Mutex("a"))).Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())
	})
}

func TestMisuseOfAMultiCallsNoHook(t *testing.T) {
	hooked(t, lock.Terms{}, true, func(t *testing.T, b *bench, o *hookLog) {
		holder, group := lockAll(t, b.Mutex("held")), lockAll(t, b.Batch("g", "x"))
		inside, cancel := holder.Context(ctx)
		defer cancel()
		inside, cancel = group.Context(inside)
		defer cancel()
		keeping := b.With(lock.Terms{MinHold: time.Minute})
		o.take()
		calls := b.calls(locktest.Acquire) + b.calls(locktest.Wait)
		for name, l := range map[string]lock.Locker{
			"bad key": b.Mutex(""), "bad limit": b.Semaphore("k", 0), "bad batch": b.Batch("k"), "bad name": b.Election("k", ""),
			"bad TTL": b.With(lock.Terms{TTL: 1}).Mutex("k"), "MinHold": keeping.RWMutex("k"), "nil": (*lock.Mutex)(nil),
			"held": b.Mutex("held"), "partly held": b.Batch("g", "x", "y"), "negative": lock.WaitAtMost(b.Mutex("k"), -1),
			"within": lock.WaitAtMost(lock.Multi(b.Mutex("b"), b.Mutex("")), time.Second),
		} {
			m := lock.Multi(b.Mutex("a"), b.Reentrant("held2"), l)
			_, err := m.Lock(inside)
			require.Error(t, err, name)
			_, err = m.TryLock(inside)
			require.Error(t, err, name)
			assert.Empty(t, o.names(), name)
		}
		assert.Equal(t, calls, b.calls(locktest.Acquire)+b.calls(locktest.Wait), "no lock was asked for")

		h, err := lock.Multi(b.Mutex("a"), b.Reentrant("held"), b.Batch("g", "x")).Lock(inside)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, []string{"acquired multi", "released multi"}, o.names())
		require.NoError(t, holder.Unlock(ctx))
		require.NoError(t, group.Unlock(ctx))
		assert.Len(t, o.take(), 2, "the checks have entered nothing")
	})
}

// The last handle of a batch may be one that was entered through several others. Released is
// then called on the goroutine of its Unlock, where a panic can be recovered.
func TestReleasedOfABatchWithinSeveral(t *testing.T) {
	released := 0
	hooks := &lock.Hooks{Released: func(context.Context, lock.HookInfo) {
		released++
		panic("oops")
	}}
	bubbleOn(t, &lock.Options{Hooks: hooks}, true, func(t *testing.T, b *bench) {
		first, second := lockAll(t, b.Batch("g", "a")), lockAll(t, b.Batch("g", "b"))
		inside, cancel := first.Context(ctx)
		defer cancel()
		inside, cancel = second.Context(inside)
		defer cancel()
		h, err := b.Batch("g", "a", "b").Lock(inside)
		require.NoError(t, err)
		require.NoError(t, first.Unlock(ctx))
		require.NoError(t, second.Unlock(ctx))
		assert.PanicsWithValue(t, "oops", func() { _ = h.Unlock(ctx) })
		assert.Equal(t, 2, released)
		assert.Zero(t, b.mem.Len())
	})
}
