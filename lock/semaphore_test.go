package lock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

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

// Close ends locks of all kinds and the calls that wait for them.
func TestCloseEndsAllKinds(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		kinds := []lock.Locker{b.Mutex("mutex"), b.RWMutex("rw"), b.Semaphore("semaphore", 1), b.Batch("batch", "m", "n")}
		outer := b.reentrant("reentrant")
		inner, _ := b.again(outer)
		held := []*lock.Held{outer, inner}
		var wg sync.WaitGroup
		for _, l := range kinds {
			held = append(held, lockAll(t, l))
			wg.Go(func() {
				_, err := l.Lock(ctx)
				assert.ErrorIs(t, err, lock.ErrClosed)
			})
		}
		settle(time.Second)
		start := time.Now()
		require.NoError(t, b.Close(ctx))
		wg.Wait()
		assert.Zero(t, time.Since(start))
		assert.Zero(t, b.mem.Waiting("mutex"))
		for _, h := range held {
			assert.True(t, closed(h.Done()))
			require.ErrorIs(t, h.Err(), lock.ErrClosed)
			require.ErrorIs(t, h.Unlock(ctx), lock.ErrClosed)
			require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		}
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
