package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func (b *bench) rlock(key string) *lock.Held {
	b.t.Helper()
	h, err := b.RWMutex(key).RLock(ctx)
	require.NoError(b.t, err)
	return h
}

func (b *bench) wlock(key string) *lock.Held {
	b.t.Helper()
	h, err := b.RWMutex(key).Lock(ctx)
	require.NoError(b.t, err)
	return h
}

// pend calls Lock in the background and returns when the call waits.
func (b *bench) pend(l lock.Locker) <-chan *lock.Held {
	b.t.Helper()
	got := make(chan *lock.Held, 1)
	go func() {
		h, err := l.Lock(ctx)
		assert.NoError(b.t, err)
		got <- h
	}()
	synctest.Wait()
	require.Empty(b.t, got)
	return got
}

// Readers of one process ask the store concurrently.
func TestReadersOfAProcessAskTogether(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		const readers = 200
		const trip = 10 * time.Millisecond
		w := b.wlock("k")
		asking, most := 0, 0
		var mu sync.Mutex // guards both
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op != locktest.Wait {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			asking++
			most = max(most, asking)
			return nil
		})
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op != locktest.Wait {
				return nil
			}
			time.Sleep(trip)
			mu.Lock()
			defer mu.Unlock()
			asking--
			return nil
		})
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				h, err := b.RWMutex("k").RLock(ctx)
				if assert.NoError(t, err) {
					assert.NoError(t, h.Unlock(ctx))
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, 64, b.mem.Waiting("k"), "but the store's queue is not flooded")
		assert.Equal(t, readers, b.Stats().Waiting)
		start := time.Now()
		require.NoError(t, w.Unlock(ctx))
		wg.Wait()
		assert.LessOrEqual(t, time.Since(start), (readers/64+1)*trip)
		assert.LessOrEqual(t, most, 64)
		b.heal()
	})
}

// The same holds within a process: a reader that came after a waiting writer does not ask the
// store together with earlier readers.
func TestAReaderDoesNotOvertakeAWriterOfItsProcess(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		holder := b.wlock("k")
		first := b.pend(b.RWMutex("k").RLocker())
		writer := b.pend(b.RWMutex("k"))
		second := b.pend(b.RWMutex("k").RLocker())
		_, err := b.RWMutex("k").TryRLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Equal(t, 1, b.mem.Waiting("k"))
		require.NoError(t, holder.Unlock(ctx))
		r := <-first
		synctest.Wait()
		assert.Equal(t, 1, b.mem.Waiting("k"), "the writer, alone")
		require.NoError(t, r.Unlock(ctx))
		w := <-writer
		synctest.Wait()
		require.Empty(t, second)
		require.NoError(t, w.Unlock(ctx))
		require.NoError(t, (<-second).Unlock(ctx))
	})
}

func TestNewKindsOnAStoreThatDoesNotKnowThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := lock.New(onlyExclusive{locktest.Plain(memstore.New())}, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		for l, kind := range map[lock.Locker]string{
			client.RWMutex("k"): "read-write lock", client.RWMutex("k").RLocker(): "read-write lock",
			client.Semaphore("k", 2): "semaphore", client.Batch("k", "m"): "batch",
		} {
			want := `lock: "k": the store has no ` + kind + `: unsupported operation`
			start := time.Now()
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.EqualError(t, err, want)
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported)
			require.EqualError(t, err, want)
			assert.Zero(t, time.Since(start))
		}
		assert.Zero(t, client.Stats().Releasing)
	})
}

// onlyExclusive is a store that supports only exclusive locks.
type onlyExclusive struct{ driver.Store }

func (onlyExclusive) Acquire(context.Context, driver.Request) (driver.Lease, error) {
	return driver.Lease{}, errMode
}

// errMode speaks of modes, which users do not know.
var errMode = fmt.Errorf("onlyexclusive: mode members: %w", errors.ErrUnsupported)
