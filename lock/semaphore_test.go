package lock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestASemaphoreHasAsManyHoldersAsItSays(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		s := b.Semaphore("k", 3)
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
			_, err := b.mem.Acquire(ctx, driver.Request{Key: "k", Owner: owner, Mode: driver.Permit, TTL: ttl, Attrs: &driver.Attrs{Limit: 2}})
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
			synctest.Wait() // concurrent requests are granted in the order in which the store executes them
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

// MaxWaiters bounds the waiting calls of all kinds of locks together.
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
		(*lock.RWMutex)(nil), (*lock.RWMutex)(nil).RLocker(), (*lock.Semaphore)(nil), (*lock.Semaphore)(nil).WithPermits(2), new(lock.Semaphore).WithPermits(2), (*lock.Batch)(nil),
		new(lock.RWMutex), new(lock.RWMutex).RLocker(), new(lock.Semaphore), new(lock.Batch),
		none.RWMutex("k"), none.Semaphore("k", 1), none.Batch("k", "m"),
	} {
		_, err := l.Lock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
		_, err = l.TryLock(ctx)
		require.ErrorContains(t, err, "not made by a Client")
	}
	assert.Nil(t, (*lock.Held)(nil).Members())
	assert.Nil(t, new(lock.Held).Members())
}

// Close ends locks of all kinds and the calls that wait for them.
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

func TestSeveralPermitsTogether(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		s := b.Semaphore("k", 5)
		three := lockAll(t, s.WithPermits(3))
		_, err := s.WithPermits(3).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		two := lockAll(t, s.WithPermits(2))
		info, err := b.Inspect(ctx, "k")
		require.NoError(t, err)
		require.Len(t, info.Holders, 2)
		assert.Equal(t, 3, info.Holders[0].Permits)
		assert.Equal(t, 2, info.Holders[1].Permits)

		all, one := b.pend(s.WithPermits(5)), b.pend(s)
		settle(time.Hour)
		require.NoError(t, two.Unlock(ctx))
		settle(time.Hour)
		require.Empty(t, all)
		require.Empty(t, one, "a waiter for many permits is not overtaken")
		require.NoError(t, three.Unlock(ctx))
		h := <-all
		synctest.Wait()
		require.Empty(t, one)
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, (<-one).Unlock(ctx))
		assert.Zero(t, b.mem.Len())
	})
}

func TestANumberOfPermitsOutOfRangeDoesNoIO(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for _, n := range []int{-1, 0, 4} {
			s := b.Semaphore("k", 3).WithPermits(n)
			_, err := s.Lock(ctx)
			require.ErrorContains(t, err, `"k"`)
			require.ErrorContains(t, err, "limit of 3")
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			_, err = s.TryLock(ctx)
			require.ErrorContains(t, err, "limit of 3")
		}
		_, err := b.Semaphore("k", 0).WithPermits(1).Lock(ctx)
		require.ErrorContains(t, err, "the limit of a semaphore must be")
		assert.Zero(t, b.calls(locktest.Acquire))
		s := b.Semaphore("k", 3)
		h := lockAll(t, s.WithPermits(3).WithPermits(2))
		require.NoError(t, lockAll(t, s).Unlock(ctx))
		require.NoError(t, h.Unlock(ctx))
	})
}

// Terms of a client are those of several permits too.
func TestSeveralPermitsHaveTerms(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := lockAll(t, b.With(lock.Terms{Metadata: "import"}).Semaphore("k", 5).WithPermits(4))
		info, err := b.Inspect(ctx, "k")
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.Equal(t, 4, info.Holders[0].Permits)
		assert.Equal(t, "import", info.Holders[0].Metadata)
		settle(time.Hour)
		_, err = b.Semaphore("k", 5).WithPermits(2).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, "a renewal keeps all permits")
		require.NoError(t, h.Unlock(ctx))
	})
}
