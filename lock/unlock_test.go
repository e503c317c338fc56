package lock_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type releaseSpy struct {
	driver.Store
	released *[]driver.Lease
}

func (s releaseSpy) Release(ctx context.Context, l driver.Lease) error {
	*s.released = append(*s.released, l)
	return s.Store.Release(ctx, l)
}

func (s releaseSpy) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	for i, l := range batch {
		out[i] = s.Release(ctx, l)
	}
	return nil
}

func TestUnlockWorksOnACancelledContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, b.lock("k").Unlock(done))
		require.NoError(t, b.lock("k").Unlock(nil)) //nolint:staticcheck // a nil counts as Background
		assert.Zero(t, b.mem.Len())
	})
}

func TestUnlockIsBoundedAndGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(hang(locktest.Release))
		start := time.Now()
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorContains(t, err, `unlock "k"`)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.False(t, h.Valid())
		assert.Equal(t, 1, b.mem.Len())
		assert.Equal(t, 1, b.Stats().Releasing)
		b.heal()
		settle(5 * time.Second)
		assert.Zero(t, b.mem.Len())
		assert.Zero(t, b.Stats().Releasing)
	})
}

func TestTheCleanerGivesUpAfterATTL(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseRequests(func(_ context.Context, op locktest.Op) error { return errIO })
		for range 100 {
			_, err := b.Mutex("k").TryLock(ctx)
			require.ErrorIs(t, err, errIO)
		}
		assert.Positive(t, b.Stats().Releasing)
		settle(ttl + time.Second)
		assert.Zero(t, b.Stats().Releasing)
		releases := b.calls(locktest.Release)
		settle(time.Hour)
		assert.Equal(t, releases, b.calls(locktest.Release))
	})
}

func TestUnlockOfALostLockTwice(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseAnswers(always(locktest.Renew, errIO))
		<-h.Done()
		b.heal()
		require.Equal(t, 1, b.mem.Len(), "the store still has it")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		for range 100 {
			err := h.Unlock(ctx)
			require.ErrorIs(t, err, lock.ErrNotHeld)
			require.NotErrorIs(t, err, lock.ErrLost, "told once")
		}
		synctest.Wait()
		assert.Equal(t, 1, b.calls(locktest.Release))
		assert.Zero(t, b.mem.Len())
	})
}

func TestTheCleanerHasNoQueueToBeHeldUpIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		faulty := &keyed{Store: locktest.Plain(mem)}
		client, err := lock.New(faulty, &lock.Options{Terms: lock.Terms{TTL: time.Hour}})
		require.NoError(t, err)
		faulty.failing.Store(true)
		for i := range 40 {
			h, err := client.Mutex(fmt.Sprint("bad", i)).Lock(ctx)
			require.NoError(t, err)
			require.Error(t, h.Unlock(ctx))
		}
		good, err := client.Mutex("good").Lock(ctx)
		require.NoError(t, err)
		faulty.failGood.Store(true)
		require.Error(t, good.Unlock(ctx))
		faulty.failGood.Store(false)
		settle(10 * time.Second)
		assert.Zero(t, mem.ExpiresIn("good"))
		assert.Equal(t, 40, client.Stats().Releasing)
		faulty.failing.Store(false)
		require.NoError(t, client.Close(ctx))
		assert.Zero(t, mem.Len())
	})
}

type keyed struct {
	driver.Store
	failing, failGood atomic.Bool
}

func (k *keyed) Release(ctx context.Context, l driver.Lease) error {
	if strings.HasPrefix(l.Key, "bad") && k.failing.Load() || l.Key == "good" && k.failGood.Load() {
		return errIO
	}
	return k.Store.Release(ctx, l)
}

func TestUnlockRepeatsALostAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseAnswers(once(locktest.Release, errIO))
		require.NoError(t, h.Unlock(ctx), "the repeat finds it gone: the first one was executed")
		assert.Zero(t, b.mem.Len())
	})
}

// Closing the engine before the client ends all locks, because nothing renews them. Unlock
// still releases them.
func TestAnEngineClosedTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		mem := memstore.New()
		client, err := lock.New(mem, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		h, err := client.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		locked := time.Now()
		left, err := client.Mutex("left to Close").Lock(ctx)
		require.NoError(t, err)
		held, stop := h.Context(ctx)
		defer stop()
		engine.Close()
		<-held.Done()
		<-left.Done()
		assert.Zero(t, time.Since(locked), "told at once")
		require.ErrorIs(t, context.Cause(held), lock.ErrClosed)
		require.ErrorIs(t, h.Err(), schedule.ErrClosed)
		assert.False(t, h.Valid())
		_, err = client.Mutex("j").Lock(ctx)
		require.ErrorIs(t, err, schedule.ErrClosed)
		require.ErrorIs(t, h.Unlock(ctx), schedule.ErrClosed)
		synctest.Wait()
		assert.Equal(t, 1, mem.Len(), "Unlock has given it back")
		require.NoError(t, client.Close(ctx))
		assert.Zero(t, mem.Len(), "so has Close")
	})
}
