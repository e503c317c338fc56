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
	"github.com/leasewheel/leasewheel/schedule"
)

func TestALostLockIsNotEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, inside := b.again(outer)
		scope, stop := inner.Context(ctx)
		defer stop()
		b.mem.Delete("k")
		<-inner.Done()
		<-outer.Done()
		<-scope.Done()
		require.ErrorIs(t, context.Cause(scope), lock.ErrLost)

		acquires := b.calls(locktest.Acquire)
		for _, c := range []context.Context{inside, scope, context.WithoutCancel(inside), context.WithoutCancel(scope)} {
			_, err := b.Reentrant("k").Lock(c)
			require.ErrorIs(t, err, lock.ErrLost)
			require.ErrorContains(t, err, `"k"`)
			_, err = b.Reentrant("k").TryLock(c)
			require.ErrorIs(t, err, lock.ErrLost)
		}
		assert.Equal(t, acquires, b.calls(locktest.Acquire), "never acquired anew")
		again, _ := outer.Context(ctx)
		_, err := b.Reentrant("k").Lock(context.WithoutCancel(again))
		require.ErrorIs(t, err, lock.ErrLost, "a context made after the loss")

		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrLost, "each handle is told")
		require.ErrorIs(t, outer.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, inner.Err(), lock.ErrLost)
		require.ErrorIs(t, outer.Err(), lock.ErrLost)
		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
	})
}

// The client releases a lost lock when its holder calls Unlock, because only then has the
// holder stopped.
func TestALostReentrantIsGivenBackWithItsLastHandle(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, _ := b.again(outer)
		b.loseRequests(always(locktest.Renew, errIO))
		<-inner.Done()
		require.Equal(t, 1, b.mem.Len(), "the server does not know of the loss")
		require.ErrorIs(t, outer.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, outer.Err(), lock.ErrLost, "still")
		synctest.Wait()
		require.Equal(t, 1, b.mem.Len(), "somebody is still inside")
		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrLost)
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

// The deadline has passed but no timer has fired yet, as after a pause of the process.
func TestAReentrantLooksAtTheClock(t *testing.T) {
	engine := new(frozen)
	bubbleWith(t, &lock.Options{Scheduler: engine}, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, inside := b.again(outer)
		other, _ := b.again(outer)
		time.Sleep(ttl)
		assert.False(t, inner.Valid())
		_, err := b.Reentrant("k").Lock(context.WithoutCancel(inside))
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorIs(t, inner.Err(), lock.ErrLost)
		assert.True(t, closed(other.Done()))
		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrLost)
	})
}

func TestAnUnlockedHandleIsNotEnteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer := b.reentrant("k")
		inner, _ := b.again(outer)
		deep, stop := inner.Context(ctx)
		defer stop()
		require.NoError(t, inner.Unlock(ctx))
		<-deep.Done()
		require.ErrorIs(t, context.Cause(deep), lock.ErrNotHeld)
		for _, c := range []context.Context{deep, context.WithoutCancel(deep)} {
			_, err := b.Reentrant("k").Lock(c)
			require.ErrorIs(t, err, lock.ErrNotHeld)
		}
		inside, stopOuter := outer.Context(ctx)
		stopOuter()
		_, err := b.Reentrant("k").Lock(inside)
		require.ErrorIs(t, err, context.Canceled, "the context has ended, the lock has not")
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, outer.Unlock(ctx))
		_, err = b.Reentrant("k").Lock(inside)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		assert.Equal(t, 1, b.calls(locktest.Acquire))
	})
}

// frozen is a timer engine that never runs a task.
type frozen struct{}

func (f *frozen) Schedule(time.Duration, schedule.Task) (schedule.Timer, error) {
	return schedule.NewTimer(f, 1), nil
}
func (*frozen) ResetTimer(uint64, time.Duration) bool  { return true }
func (*frozen) StopTimer(uint64) bool                  { return true }
func (*frozen) AwaitTimer(uint64)                      {}
func (*frozen) TimerDeadline(uint64) (time.Time, bool) { return time.Time{}, false }
