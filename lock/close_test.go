package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
)

func TestCloseReleasesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		client, err := lock.New(locktest.Plain(mem), nil)
		require.NoError(t, err)
		var all []*lock.Held
		for i := range 300 {
			h, err := client.Mutex(fmt.Sprint(i)).Lock(ctx)
			require.NoError(t, err)
			all = append(all, h)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := client.Mutex("0").Lock(ctx)
			assert.ErrorIs(t, err, lock.ErrClosed, "those that wait are told")
		})
		settle(time.Minute)
		done := all[7].Done()
		start := time.Now()
		require.NoError(t, client.Close(ctx))
		wg.Wait()
		assert.Zero(t, time.Since(start), "nobody waits for the end of a backoff")
		assert.Zero(t, mem.Len())
		assert.True(t, closed(done))
		for _, h := range all {
			assert.False(t, h.Valid())
			require.ErrorIs(t, h.Err(), lock.ErrClosed)
		}
		require.ErrorIs(t, all[0].Unlock(ctx), lock.ErrClosed)
		_, err = client.Mutex("a").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		_, err = client.With(lock.Terms{TTL: time.Minute}).Mutex("a").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NoError(t, client.Close(ctx), "a second one has the same result")
		assert.Zero(t, client.Stats().Renewal.Held)
	})
}

// Close ends a Lock that never pauses.
func TestCloseEndsALockThatNeverPauses(t *testing.T) {
	o := &lock.Options{Backoff: func(int) time.Duration { return 0 }}
	bubbleWith(t, o, func(t *testing.T, b *bench) {
		b.lock("k")
		failed := make(chan error)
		go func() {
			_, err := b.Mutex("k").Lock(context.Background())
			failed <- err
		}()
		for b.calls(locktest.Acquire) < 100 {
			runtime.Gosched()
		}
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, <-failed, lock.ErrClosed)
	})
}

// If Close ends a Lock, the client releases the lock that the store may have granted.
func TestCloseLeavesNoLockForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		client, err := lock.New((&locktest.Faulty{After: hang(locktest.Acquire)}).Over(locktest.Plain(mem)), nil)
		require.NoError(t, err)
		failed := make(chan error, 1)
		go func() {
			_, err := client.Mutex("k").Lock(context.Background())
			failed <- err
		}()
		settle(time.Second)
		require.Equal(t, 1, mem.Len(), "taken, and the answer is on its way")
		require.NoError(t, client.Close(ctx))
		require.ErrorIs(t, <-failed, lock.ErrClosed)
		assert.Zero(t, mem.Len())
	})
}

// A renewal that hangs and ignores its ctx does not prevent the release of locks.
func TestCloseReleasesThoughARenewalHangs(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		for i := range 100 {
			b.lock(fmt.Sprint(i))
		}
		forever := make(chan struct{})
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew {
				<-forever
			}
			return nil
		})
		settle(ttl / 3)
		b.store.Over(locktest.Plain(b.mem)) // stays open
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, b.Close(short), context.DeadlineExceeded, "it says so")
		assert.Zero(t, b.mem.Len())
		close(forever)
	})
}

func TestALossBeforeCloseIsNotHidden(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.mem.Delete("k")
		<-h.Done()
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, h.Err(), lock.ErrLost)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
	})
	bubble(t, func(t *testing.T, b *bench) {
		err := lock.Do(ctx, b.Mutex("k"), func(inner context.Context, _ *lock.Held) error {
			require.NoError(t, b.Close(ctx))
			<-inner.Done()
			assert.ErrorIs(t, context.Cause(inner), lock.ErrClosed)
			return nil
		})
		require.ErrorIs(t, err, lock.ErrClosed, "the lock went under f's feet")
	})
}

// A client does not close an engine that it was given.
func TestAnEngineOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := heapqueue.NewScheduler(nil)
		require.NoError(t, err)
		defer engine.Close()
		for range 2 {
			client, err := lock.New(memstore.New(), &lock.Options{Scheduler: engine})
			require.NoError(t, err)
			h, err := client.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			settle(time.Hour)
			assert.True(t, h.Valid())
			require.NoError(t, client.Close(ctx))
		}
	})
}

// A lock that is granted after Close is released.
func TestALockThatIsGrantedToAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		granted := make(chan struct{})
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				<-granted // ignores its ctx
			}
			return nil
		})
		failed := make(chan error, 1)
		go func() {
			h, err := b.Mutex("k").Lock(context.Background())
			assert.Nil(t, h)
			failed <- err
		}()
		synctest.Wait()
		closing := make(chan error, 1)
		go func() { closing <- b.Close(context.Background()) }()
		synctest.Wait()
		close(granted)
		require.ErrorIs(t, <-failed, lock.ErrClosed)
		require.NoError(t, <-closing)
		assert.Zero(t, b.mem.Len(), "it is given back")
	})
}

// Every Close waits for the first one and returns its result, or ends with its own ctx.
func TestEveryCloseHasTheSameResult(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(hang(locktest.Release))
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		first := make(chan error, 1)
		go func() { first <- b.Close(limited) }()
		synctest.Wait()
		short, cancelShort := context.WithTimeout(ctx, time.Millisecond)
		defer cancelShort()
		require.ErrorIs(t, b.Close(short), context.DeadlineExceeded)
		assert.Empty(t, first, "the first one goes on")
		start := time.Now()
		second := b.Close(ctx)
		assert.Equal(t, time.Second-time.Millisecond, time.Since(start), "it waits")
		require.ErrorContains(t, second, "1 of 1 locks not released")
		require.ErrorIs(t, second, context.DeadlineExceeded)
		require.ErrorIs(t, h.Err(), lock.ErrClosed)
		assert.Equal(t, <-first, second)
	})
}

// The client that is closed first closes the store. The other one says so.
func TestTwoClientsOfOneStore(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		first, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		h := b.lock("k")
		require.NoError(t, first.Close(ctx))

		_, err = b.Mutex("j").Lock(ctx)
		require.EqualError(t, err, `lock: "j": the store is closed`)
		_, err = b.Mutex("j").TryLock(ctx)
		require.EqualError(t, err, `lock: "j": the store is closed`)
		_, err = b.Inspect(ctx, "k")
		require.ErrorIs(t, err, driver.ErrStoreClosed)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NotContains(t, err.Error(), "client")
		require.NoError(t, h.Err(), "until its deadline")
		err = h.Unlock(ctx)
		require.ErrorContains(t, err, "the store is closed")
		require.NotContains(t, err.Error(), "client")

		synctest.Wait() // the client has given up the release of k, which Unlock has reported
		require.NoError(t, b.Close(context.Background()))
		_, err = b.Mutex("j").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		assert.NotErrorIs(t, err, driver.ErrStoreClosed, "now it is the client")
	})
}

// slowStore is a store that takes long to close.
type slowStore struct{ *memstore.Store }

func (s slowStore) Shutdown(ctx context.Context) error {
	_ = s.Close()
	<-ctx.Done()
	return context.Cause(ctx)
}

// L5: Close of a client returns when its context ends, even if the store takes longer to close.
func TestCloseShutsTheStoreDownWithinItsContext(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func() driver.Store{
		"single": func() driver.Store { return slowStore{memstore.New()} },
		"quorum": func() driver.Store {
			q, err := quorumstore.New(slowStore{memstore.New()}, slowStore{memstore.New()}, memstore.New())
			require.NoError(t, err)
			return q
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := lock.New(store(), nil)
			require.NoError(t, err)
			held, err := client.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Unlock(t.Context()))
			cause := errors.New("no more time")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, client.Close(ctx), cause, name)
			assert.Equal(t, time.Second, time.Since(start), name)
		})
	}
}
