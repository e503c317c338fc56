package lock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestASemaphoreHasAsManyHoldersAsItSays(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		s := b.Semaphore("k", 3)
		require.Equal(t, "k", s.Key())
		require.Equal(t, 3, s.Limit())
		var all []*lock.Held
		for range 3 {
			all = append(all, lockAll(t, s))
		}
		settle(time.Hour)
		_, err := s.TryLock(ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Positive(t, held.ExpiresIn)
		for i, h := range all {
			assert.True(t, h.Valid())
			assert.Equal(t, `permit lease of "k"`, h.String())
			if i > 0 {
				assert.Greater(t, h.Token(), all[i-1].Token())
			}
		}
		require.NoError(t, all[1].Unlock(ctx))
		next, err := s.TryLock(ctx)
		require.NoError(t, err)
		_, err = s.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		more, err := b.Semaphore("k", 4).TryLock(ctx)
		require.NoError(t, err, "each is judged by its own limit")
		for _, h := range []*lock.Held{all[0], all[2], next, more} {
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

func TestACrashLeaksNoPermit(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		for _, owner := range []string{"dead:1", "dead:2"} {
			_, err := b.mem.Acquire(ctx, lock.Request{Key: "k", Owner: owner, Mode: lock.Permit, TTL: ttl, Extra: &lock.Extra{Limit: 2}})
			require.NoError(t, err)
		}
		start := time.Now()
		first, second := b.pend(b.Semaphore("k", 2)), b.pend(b.Semaphore("k", 2))
		one, two := <-first, <-second
		assert.Equal(t, ttl, time.Since(start))
		require.NoError(t, one.Unlock(ctx))
		require.NoError(t, two.Unlock(ctx))
	})
}

func TestPermitsAreHandedOverInOrder(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		s := b.Semaphore("k", 2)
		h := []*lock.Held{lockAll(t, s), lockAll(t, s)}
		var calls []<-chan *lock.Held
		for range 6 {
			calls = append(calls, b.pend(s))
		}
		assert.Equal(t, 2, b.mem.Waiting("k"), "the store sees no more of them than there are permits")
		for _, c := range calls {
			require.Empty(t, c)
			require.NoError(t, h[0].Unlock(ctx))
			h = append(h[1:], <-c)
			synctest.Wait() // those that ask together are served in whatever order they come to the store
		}
		require.NoError(t, h[0].Unlock(ctx))
		require.NoError(t, h[1].Unlock(ctx))
		assert.Zero(t, b.Stats().Waiting)
	})
}

func TestALimitOutOfRangeDoesNoIO(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, n := range []int{-1, 0, lock.MaxPermits + 1} {
			s := b.Semaphore("k", n)
			_, err := s.Lock(ctx)
			require.ErrorContains(t, err, `"k"`)
			require.ErrorContains(t, err, "limit")
			_, err = s.TryLock(ctx)
			require.ErrorContains(t, err, "limit")
		}
		_, err := b.Semaphore("", 1).Lock(ctx)
		require.ErrorIs(t, err, lock.ErrBadKey)
		assert.Zero(t, b.calls(locktest.Acquire))
		h := lockAll(t, b.Semaphore("k", lock.MaxPermits))
		require.NoError(t, h.Unlock(ctx))
		h = lockAll(t, b.Semaphore("k", 1))
		require.NoError(t, h.Unlock(ctx))
	})
}

// MaxWaiters bounds the calls of all kinds together.
func TestTooManyOfAllKindsAreRefused(t *testing.T) {
	waiting(t, &lock.Options{MaxWaiters: 4}, func(t *testing.T, b *bench) {
		kinds := []lock.Locker{b.Mutex("mutex"), b.RWMutex("rw"), b.Semaphore("semaphore", 1), b.Batch("batch", "m")}
		var held []*lock.Held
		for _, l := range kinds {
			held = append(held, lockAll(t, l))
		}
		var calls []<-chan *lock.Held
		for _, l := range kinds {
			calls = append(calls, b.pend(l))
		}
		asked := b.calls(locktest.Wait)
		for _, l := range append(kinds, b.RWMutex("rw").RLocker(), b.Batch("batch", "other")) {
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, lock.ErrTooMany)
		}
		assert.Equal(t, asked, b.calls(locktest.Wait))
		assert.Equal(t, 4, b.Stats().Waiting)
		for i, c := range calls {
			require.NoError(t, held[i].Unlock(ctx))
			require.NoError(t, (<-c).Unlock(ctx))
		}
		assert.Zero(t, b.Stats().Waiting)
	})
}

func TestTheZeroKinds(t *testing.T) {
	var none *lock.Client
	for _, l := range []lock.Locker{
		(*lock.RWMutex)(nil), (*lock.RWMutex)(nil).RLocker(), (*lock.Semaphore)(nil), (*lock.Batch)(nil),
		new(lock.RWMutex), new(lock.RWMutex).RLocker(), new(lock.Semaphore), new(lock.Batch),
		none.RWMutex("k"), none.Semaphore("k", 1), none.Batch("k", "m"),
	} {
		_, err := l.Lock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
		_, err = l.TryLock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
	}
	assert.Zero(t, new(lock.Semaphore).Limit())
	assert.Nil(t, (*lock.Held)(nil).Names())
	assert.Nil(t, new(lock.Held).Names())
}

// Close ends all kinds, and those that wait for them.
func TestCloseEndsAllKinds(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		kinds := []lock.Locker{b.RWMutex("rw"), b.Semaphore("semaphore", 1), b.Batch("batch", "m", "n")}
		var held []*lock.Held
		var wg sync.WaitGroup
		for _, l := range kinds {
			held = append(held, lockAll(t, l))
			wg.Go(func() {
				_, err := l.Lock(ctx)
				assert.ErrorIs(t, err, lock.ErrClosed)
			})
		}
		synctest.Wait()
		require.NoError(t, b.Close(ctx))
		wg.Wait()
		for _, h := range held {
			require.ErrorIs(t, h.Err(), lock.ErrClosed)
		}
	})
}
