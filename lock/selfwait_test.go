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

// locked calls f with the context of a handle of l.
func locked(t *testing.T, l lock.Locker, f func(ctx context.Context)) {
	t.Helper()
	require.NoError(t, lock.Do(ctx, l, func(ctx context.Context, _ *lock.Held) error {
		f(ctx)
		return nil
	}))
}

func TestALockThatWouldWaitForItselfReturnsAtOnce(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		rw := b.RWMutex("k")
		for name, c := range map[string]struct{ held, wanted lock.Locker }{
			"a mutex":                  {b.Mutex("k"), b.Mutex("k")},
			"a mutex of other terms":   {b.Mutex("k"), b.With(lock.Terms{TTL: time.Minute}).Mutex("k")},
			"a mutex in a reentrant":   {b.Reentrant("k"), b.Mutex("k")},
			"a mutex in an election":   {b.Election("k", "a"), b.Mutex("k")},
			"an election in a mutex":   {b.Mutex("k"), b.Election("k", "a")},
			"a writer":                 {rw, rw},
			"a reader within a writer": {rw, rw.RLocker()},
			"a writer within a reader": {rw.RLocker(), rw},
			"a mutex of a multi":       {lock.Multi(b.Mutex("j"), b.Mutex("k")), b.Mutex("k")},
			"a multi of a mutex":       {b.Mutex("k"), lock.Multi(b.Mutex("j"), b.Mutex("k"))},
		} {
			start := time.Now()
			locked(t, c.held, func(ctx context.Context) {
				limited, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				for _, ctx := range []context.Context{ctx, limited} {
					_, err := c.wanted.Lock(ctx)
					require.ErrorIs(t, err, lock.ErrHeldByContext, name)
					_, err = c.wanted.TryLock(ctx)
					require.ErrorIs(t, err, lock.ErrHeldByContext, name)
					require.NotErrorIs(t, err, lock.ErrNotAcquired, "it is no contention")
					require.ErrorContains(t, err, `lock: "k": already held by this context`)
				}
			})
			assert.Zero(t, time.Since(start), name)
			assert.Zero(t, b.Stats().Waiting)
		}
		_, err := b.Mutex("k").Lock(ctx)
		require.NoError(t, err, "the lock is free again")
	})
}

func TestALockThatMayBecomeFreeIsWaitedFor(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		try := func(t *testing.T, l lock.Locker, ctx context.Context) error {
			t.Helper()
			h, err := l.TryLock(ctx)
			if err == nil {
				require.NoError(t, h.Unlock(context.Background()))
			}
			return err
		}
		other, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		rw, permits := b.RWMutex("rw"), b.Semaphore("s", 1)
		locked(t, b.Mutex("k"), func(ctx context.Context) {
			require.NoError(t, try(t, b.Mutex("another key"), ctx))
			require.NoError(t, try(t, b.Reentrant("k"), ctx))
			require.ErrorIs(t, try(t, other.Mutex("k"), ctx), lock.ErrNotAcquired, "another client")
			require.ErrorIs(t, try(t, b.Mutex("k"), context.WithoutCancel(ctx)), lock.ErrNotAcquired)
			require.ErrorIs(t, try(t, b.RWMutex("k"), ctx), lock.ErrWrongType)
		})
		locked(t, rw.RLocker(), func(ctx context.Context) { require.NoError(t, try(t, rw.RLocker(), ctx)) })
		locked(t, permits, func(ctx context.Context) {
			require.ErrorIs(t, try(t, permits, ctx), lock.ErrNotAcquired)
			require.NoError(t, try(t, b.Semaphore("s", 2), ctx))
		})
		require.NoError(t, other.Close(ctx))
	})
}

func TestAnEndedOwnershipDoesNotStopAMutex(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		var background context.Context
		got := make(chan *lock.Held, 1)
		locked(t, b.Mutex("k"), func(ctx context.Context) {
			background = context.WithoutCancel(ctx)
			go func() {
				h, err := b.Mutex("k").Lock(background)
				assert.NoError(t, err)
				got <- h
			}()
			synctest.Wait()
			assert.Empty(t, got, "it waits for the holder")
		})
		require.NoError(t, (<-got).Unlock(ctx))
		limited, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		h, err := b.Mutex("k").Lock(limited)
		require.NoError(t, err, "the holder has unlocked it")
		require.NoError(t, h.Unlock(ctx))

		locked(t, b.Reentrant("k"), func(ctx context.Context) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, err := b.Mutex("k").Lock(ended)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, lock.ErrHeldByContext)
		})
	})
}

func TestALostOwnershipDoesNotStopAMutex(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		inside, stop := h.Context(ctx)
		defer stop()
		b.loseRequests(always(locktest.Renew, errIO))
		<-h.Done()
		b.heal()
		settle(ttl)
		limited, cancel := context.WithTimeout(context.WithoutCancel(inside), time.Second)
		defer cancel()
		next, err := b.Mutex("k").Lock(limited)
		require.NoError(t, err)
		require.NoError(t, next.Unlock(ctx))
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
	})
}

func TestAnOuterOwnershipStopsAMutex(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		locked(t, b.Mutex("k"), func(ctx context.Context) {
			require.NoError(t, lock.Do(ctx, b.Mutex("j"), func(ctx context.Context, _ *lock.Held) error {
				_, err := b.Mutex("k").Lock(ctx)
				require.EqualError(t, err, `lock: "k": already held by this context; use a Reentrant`)
				_, err = b.Mutex("j").Lock(ctx)
				require.ErrorIs(t, err, lock.ErrHeldByContext)
				return lock.Do(ctx, b.Reentrant("k"), func(context.Context, *lock.Held) error { return nil })
			}))
		})
		assert.Equal(t, 2, b.calls(locktest.Acquire))
	})
}
