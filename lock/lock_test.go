package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

var ctx = context.Background()

func TestAHeldLockIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		assert.Equal(t, "k", h.Key())
		assert.NotZero(t, h.Token())
		assert.NotContains(t, h.String(), ":")
		settle(time.Hour)
		assert.True(t, h.Valid())
		require.NoError(t, h.Err())
		assert.False(t, closed(h.Done()))
		assert.True(t, h.Deadline().After(time.Now().Add(ttl/2)))
		assert.InDelta(t, 360, b.calls(locktest.Renew), 10)

		_, err := b.Mutex("k").TryLock(ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "k", held.Key)
		assert.Positive(t, held.ExpiresIn)

		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		assert.False(t, h.Valid())
		assert.True(t, closed(h.Done()))
		require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
		assert.Zero(t, h.Deadline())
		renewals := b.calls(locktest.Renew)
		settle(time.Hour)
		assert.Equal(t, renewals, b.calls(locktest.Renew), "no renewal after Unlock")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
	})
}

// A waiter gets the lock of a dead holder when its lease ends, without an additional backoff.
func TestLockTriesWhenTheLeaseEnds(t *testing.T) {
	bubbleWith(t, &lock.Options{Backoff: func(int) time.Duration { return time.Hour }}, func(t *testing.T, b *bench) {
		_, err := b.mem.Acquire(ctx, driver.Request{Key: "k", Owner: "dead", TTL: ttl})
		require.NoError(t, err)
		start := time.Now()
		h := b.lock("k")
		assert.Equal(t, ttl+2*time.Millisecond, time.Since(start))
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestAFinishedContextDoesNoIO(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		_, err := b.Mutex("k").Lock(done)
		require.ErrorIs(t, err, context.Canceled)
		_, err = b.Mutex("k").TryLock(done)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		_, err = b.Mutex("k").Lock(nil) //nolint:staticcheck // the nil is what is tested
		require.ErrorContains(t, err, "context is nil")
		assert.Zero(t, b.calls(locktest.Acquire))
	})
}

func TestALostAnswerOfAcquireIsMadeGood(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var released []driver.Lease
		b.store.Over(releaseSpy{b.mem, &released})
		b.loseAnswers(once(locktest.Acquire, errIO))
		h := b.lock("k")
		assert.Equal(t, 2, b.calls(locktest.Acquire))
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		require.NoError(t, b.lock("k").Unlock(ctx))
		require.Len(t, released, 2)
		assert.True(t, released[0].Unanswered, "one acquire may still be on its way")
		assert.False(t, released[1].Unanswered)

		b.loseAnswers(once(locktest.Acquire, errIO))
		h, err := b.Mutex("k").TryLock(ctx)
		require.NoError(t, err, "a TryLock does not collide with itself")
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestAnAcquireThatFailsLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, try := range []func(context.Context) (*lock.Held, error){b.Mutex("k").Lock, b.Mutex("k").TryLock} {
			b.loseAnswers(always(locktest.Acquire, errIO))
			_, err := try(ctx)
			require.ErrorIs(t, err, errIO)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, "nobody says that it is taken")
			synctest.Wait()
			assert.Zero(t, b.mem.Len(), "what was taken for nobody is given back")
			b.heal()
			h := b.lock("k")
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

func TestALockThatWasTakenAwayIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		settle(time.Minute)
		b.mem.Delete("k")
		other := b.lock("k")
		<-h.Done()
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
		assert.Zero(t, b.calls(locktest.Release))
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorContains(t, err, `unlock "k"`)
		synctest.Wait()
		assert.Equal(t, 1, b.calls(locktest.Release), "one, whose result is ignored")
		assert.Zero(t, b.Stats().Releasing)
		assert.True(t, other.Valid(), "the other's lock is untouched")
		assert.Greater(t, other.Token(), h.Token())
		require.NoError(t, other.Unlock(ctx))
	})
}

// Unlock also releases a lock that was lost because the store failed, so that others need not
// wait for the end of its lease.
func TestAGrantThatComesTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var mu sync.Mutex // guards delays
		delays := []time.Duration{ttl, ttl}
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op == locktest.Acquire && len(delays) > 0 {
				d := delays[0]
				delays = delays[1:]
				time.Sleep(d)
			}
			return nil
		})
		_, err := b.Mutex("k").TryLock(ctx)
		require.EqualError(t, err, `lock: "k": store unavailable: its answer came when the lease was over`)
		require.ErrorIs(t, err, lock.ErrUnavailable, "no lock is better than one that has ended")
		require.NotErrorIs(t, err, lock.ErrLost, "it never was one")
		synctest.Wait()
		h := b.lock("k")
		assert.True(t, h.Valid(), "Lock asks again")
		assert.Equal(t, 3, b.calls(locktest.Acquire))
		require.NoError(t, h.Unlock(ctx))

		mu.Lock()
		delays = []time.Duration{ttl, ttl, ttl, ttl}
		mu.Unlock()
		_, err = b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable, "but not for ever")
		assert.Equal(t, 5, b.calls(locktest.Acquire))
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

func TestContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		type key struct{}
		parent, cancelParent := context.WithCancel(context.WithValue(ctx, key{}, "value"))
		lost, stop := h.Context(parent)
		defer stop()
		ended, stopEnded := h.Context(ctx)
		assert.Equal(t, "value", lost.Value(key{}))
		settle(time.Minute)
		require.NoError(t, lost.Err())
		stopEnded()
		require.ErrorIs(t, ended.Err(), context.Canceled)
		assert.True(t, h.Valid(), "ending the context does not touch the lock")

		b.mem.Delete("k")
		<-lost.Done()
		require.ErrorIs(t, context.Cause(lost), lock.ErrLost)
		after, stopAfter := h.Context(ctx)
		defer stopAfter()
		require.Error(t, after.Err(), "at once")
		require.ErrorIs(t, context.Cause(after), lock.ErrLost)

		h = b.lock("j")
		child, stopChild := h.Context(parent)
		defer stopChild()
		cancelParent()
		<-child.Done()
		require.ErrorIs(t, context.Cause(child), context.Canceled)
		unlocked, stopUnlocked := h.Context(nil) //nolint:staticcheck // a nil counts as Background
		defer stopUnlocked()
		require.NoError(t, unlocked.Err())
		require.NoError(t, h.Unlock(ctx))
		<-unlocked.Done()
		require.ErrorIs(t, context.Cause(unlocked), lock.ErrNotHeld)
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		m, errWork := b.Mutex("k"), errors.New("work failed")
		free := func() {
			t.Helper()
			synctest.Wait()
			assert.Zero(t, b.mem.Len())
		}
		require.NoError(t, lock.Do(ctx, m, func(ctx context.Context, _ *lock.Held) error {
			assert.Equal(t, 1, b.mem.Len())
			return ctx.Err()
		}))
		free()
		assert.Equal(t, errWork, lock.Do(ctx, m, func(ctx context.Context, held *lock.Held) error {
			assert.True(t, held.Valid())
			require.NoError(t, held.Unlock(ctx), "Do accepts that")
			free()
			return errWork
		}))
		assert.Equal(t, 2, b.calls(locktest.Release))

		err := lock.Do(ctx, m, func(ctx context.Context, _ *lock.Held) error {
			b.mem.Delete("k")
			<-ctx.Done() // notified
			assert.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost, "though f returned nil")
		err = lock.Do(ctx, m, func(context.Context, *lock.Held) error {
			b.mem.Delete("k")
			return errWork
		})
		require.ErrorIs(t, err, lock.ErrLost, "found by the release")
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.ErrorIs(t, err, errWork)

		assert.PanicsWithValue(t, "oops", func() {
			_ = lock.Do(ctx, m, func(context.Context, *lock.Held) error { panic("oops") })
		})
		free()

		cancelled, cancel := context.WithCancel(ctx)
		require.ErrorIs(t, lock.Do(cancelled, m, func(ctx context.Context, _ *lock.Held) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}), context.Canceled)
		free()

		b.loseRequests(always(locktest.Release, errIO))
		require.NoError(t, lock.Do(ctx, m, func(context.Context, *lock.Held) error { return nil }), "the work was done")
		b.heal()
		settle(time.Second)
		free()

		require.ErrorContains(t, lock.Do(ctx, nil, func(context.Context, *lock.Held) error { return nil }), "nil")
		require.ErrorContains(t, lock.Do(ctx, m, nil), "nil")
		require.ErrorIs(t, lock.Do(ctx, b.Mutex(""), func(context.Context, *lock.Held) error { return nil }), lock.ErrBadKey)
	})
}
