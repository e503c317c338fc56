package lock_test

import (
	"context"
	"errors"
	"slices"
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

func TestALockIsHandedOverInOrder(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := b.lock("k")
		var order []int
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				h := b.lock("k")
				order = append(order, i) // under the lock
				time.Sleep(time.Minute)  // it is renewed
				assert.True(t, h.Valid())
				assert.NoError(t, h.Unlock(ctx))
			})
			synctest.Wait()
		}
		assert.Equal(t, 20, b.Stats().Waiting)
		assert.Equal(t, 1, b.mem.Waiting("k"), "one place for all of a client")
		start := time.Now()
		require.NoError(t, h.Unlock(ctx))
		wg.Wait()
		assert.Equal(t, 20*time.Minute, time.Since(start), "and at once")
		assert.IsIncreasing(t, order)
		assert.Zero(t, b.calls(locktest.Acquire), "nobody polls")
		assert.Equal(t, 21, b.calls(locktest.Wait))
		assert.Equal(t, 21, b.calls(locktest.Release))
		assert.Zero(t, b.Stats().Waiting)
		assert.Zero(t, b.mem.Len())
	})
}

func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		var order []int
		var wg sync.WaitGroup
		for i := range 3 {
			client, err := lock.New(unclosed{mem}, nil)
			require.NoError(t, err)
			defer client.Close(ctx)
			for range 4 {
				wg.Go(func() {
					h, err := client.Mutex("k").Lock(ctx)
					if assert.NoError(t, err) {
						order = append(order, i)
						time.Sleep(time.Second)
						assert.NoError(t, h.Unlock(ctx))
					}
				})
			}
			synctest.Wait()
		}
		wg.Wait()
		assert.Equal(t, []int{0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2}, order)
	})
}

func TestACancelledWaiterLeaves(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := b.lock("k")
		cause := errors.New("the cause")
		for _, behind := range []int{0, 1} { // the head of the local queue, and the call behind it
			var wg sync.WaitGroup
			for range behind {
				wg.Go(func() { assert.NoError(t, b.lock("k").Unlock(ctx)) })
				synctest.Wait()
			}
			waiting, cancel := context.WithCancelCause(ctx)
			failed := make(chan error)
			go func() {
				_, err := b.Mutex("k").Lock(waiting)
				failed <- err
			}()
			settle(time.Minute)
			assert.Equal(t, behind+1, b.Stats().Waiting)
			released := b.calls(locktest.Release)
			cancel(cause)
			start := time.Now()
			err := <-failed
			assert.Zero(t, time.Since(start))
			require.ErrorIs(t, err, cause)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			synctest.Wait()
			assert.Equal(t, behind, b.mem.Waiting("k"))
			assert.Equal(t, behind, b.Stats().Waiting)
			assert.Equal(t, 1-behind, b.calls(locktest.Release)-released, "the store is told of the owner that has waited")
			require.NoError(t, h.Unlock(ctx))
			wg.Wait()
			h = b.lock("k")
		}
	})
}

func TestTooManyAreRefused(t *testing.T) {
	waiting(t, &lock.Options{MaxWaiters: 3}, func(t *testing.T, b *bench) {
		b.lock("k")
		waiting, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := b.Mutex("k").Lock(waiting)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		settle(time.Second)
		asked := b.calls(locktest.Wait)
		for range 10_000 {
			if _, err := b.Mutex("k").Lock(ctx); !errors.Is(err, lock.ErrTooMany) {
				require.ErrorIs(t, err, lock.ErrTooMany)
			}
		}
		_, err := b.Mutex("j").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrTooMany, "of all keys")
		require.ErrorContains(t, err, `"j"`)
		assert.Equal(t, asked, b.calls(locktest.Wait), "without a word to the store")
		assert.Equal(t, 3, b.Stats().Waiting)
		_, err = b.Mutex("j").TryLock(ctx)
		require.NoError(t, err, "a TryLock does not wait")
		cancel()
		wg.Wait()
		synctest.Wait()
		assert.Zero(t, b.mem.Waiting("k"))
		b.lock("i")
	})
}

func TestAnErrorOfTheStoreEndsTheWholeLine(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		b.loseRequests(func(ctx context.Context, op locktest.Op) error {
			if op == locktest.Wait {
				time.Sleep(time.Second)
				return errIO
			}
			return nil
		})
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := b.Mutex("k").Lock(ctx)
				assert.ErrorIs(t, err, errIO)
				assert.NotErrorIs(t, err, lock.ErrNotAcquired)
			})
		}
		wg.Wait()
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, b.Stats().Waiting)
		b.heal()
		require.NoError(t, b.lock("k").Unlock(ctx))
	})
}

// The client releases the lock that a Wait without an answer may have acquired or may still
// acquire.
func TestAWaitWithoutAnAnswerIsGivenBack(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		for _, l := range []lock.Locker{b.Mutex("k"), b.RWMutex("rw"), b.RWMutex("r").RLocker(), b.Semaphore("s", 1), b.Batch("g", "a")} {
			var released []driver.Lease
			b.loseAnswers(once(locktest.Wait, errIO))
			b.store.Over(releaseSpy{b.mem, &released})
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, errIO)
			synctest.Wait()
			h := lockAll(t, l)
			require.Len(t, released, 1)
			assert.True(t, released[0].Unanswered)
			require.NoError(t, h.Unlock(ctx))
			assert.False(t, released[1].Unanswered)
			assert.Zero(t, b.mem.Len())
		}
	})
}

func TestAGrantThatIsOverIsNotUsed(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		late := func(calls int, ops ...locktest.Op) {
			b.loseAnswers(func(_ context.Context, op locktest.Op) error {
				if slices.Contains(ops, op) && calls > 0 {
					calls--
					time.Sleep(ttl)
				}
				return nil
			})
		}
		var released []driver.Lease
		b.store.Over(releaseSpy{b.mem, &released})
		late(2, locktest.Wait, locktest.Acquire)
		h := b.lock("k")
		assert.True(t, h.Valid(), "its owner has asked again")
		assert.Equal(t, 1, b.calls(locktest.Wait))
		assert.Equal(t, 2, b.calls(locktest.Acquire))
		synctest.Wait()
		require.NoError(t, h.Unlock(ctx))
		require.Len(t, released, 1)
		late(10, locktest.Wait, locktest.Acquire)
		_, err := b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable, "but not for ever")
		require.NotErrorIs(t, err, lock.ErrLost)
		assert.Equal(t, 2, b.calls(locktest.Wait))
		assert.Equal(t, 4, b.calls(locktest.Acquire))
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

// A store hands a lock over for the rest of a place, which is less than a TTL.
func TestTermsOfALockThatWasHandedOver(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		b.store.Over(agedStore{b.mem, 20 * time.Second})
		start := time.Now()
		plain := b.lock("plain")
		assert.Equal(t, start.Add(ttl-20*time.Second-600*time.Millisecond), plain.Deadline(), "it counts from Sent")
		settle(3 * time.Second)
		assert.Equal(t, 1, b.calls(locktest.Renew), "renewed soon")
		assert.Greater(t, time.Until(plain.Deadline()), 28*time.Second)

		limited, err := b.With(lock.Terms{MaxHold: time.Minute}).Mutex("limited").Lock(ctx)
		require.NoError(t, err)
		fixed, err := b.With(lock.Terms{TTL: ttl, Fixed: true}).Mutex("fixed").Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, 1, b.calls(locktest.Acquire), "a fixed lease is asked for once more, for its full TTL")
		start = time.Now()
		<-fixed.Done()
		assert.InDelta(t, 29.4, time.Since(start).Seconds(), 0.1)
		<-limited.Done()
		assert.InDelta(t, 60, time.Since(start).Seconds(), 0.1, "counted from when Lock had it")
	})
}

// agedStore grants leases of which a part of the TTL has passed.
type agedStore struct {
	*memstore.Store
	age time.Duration
}

func (s agedStore) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	l, err := s.Store.Wait(ctx, r, queued)
	l.Sent = l.Sent.Add(-s.age)
	return l, err
}

// After a panic of a store that the caller recovers, as an HTTP server does, the client still
// works, for this lock and for others.
func TestAPanicOfTheStoreKeepsNobodyWaiting(t *testing.T) {
	for op, waits := range map[locktest.Op]bool{locktest.Wait: true, locktest.Acquire: false} {
		bubbleOn(t, nil, waits, func(t *testing.T, b *bench) {
			b.loseRequests(panics(op))
			assert.PanicsWithValue(t, "oops", func() { _, _ = b.Mutex("k").Lock(ctx) })
			b.heal()
			assert.Zero(t, b.Stats().Waiting)
			require.NoError(t, b.lock("k").Unlock(ctx))
		})
	}
}
