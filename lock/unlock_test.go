package lock_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/leasewheel/leasewheel/renewal"
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

// A request without an answer may be executed long after the release. It must not acquire the
// lock then.
func TestUnlockOfALostLockRefusesItsLateRequests(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var released []driver.Lease
		b.store.Over(releaseSpy{locktest.Plain(b.mem), &released})
		b.loseRequests(once(locktest.Acquire, errIO))
		h := b.lock("k")
		b.mem.Delete("k")
		<-h.Done()
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		settle(time.Second)
		require.Len(t, released, 1)
		_, err := b.mem.Acquire(ctx, released[0].Request)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Zero(t, b.mem.Len())
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

// A task that blocks a shared engine delays renewals, but not the notice of a loss: the holder
// is notified before another client can have the lock.
func TestABlockedEngineIsNoticed(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			engine, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
			require.NoError(t, err)
			defer engine.Close()
			var log strings.Builder
			mem := memstore.New()
			client, err := lock.New(mem, &lock.Options{
				Scheduler: engine,
				Terms:     lock.Terms{TTL: ttl},
				Renewal:   renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			})
			require.NoError(t, err)
			h, err := client.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			held, stop := h.Context(ctx)
			defer stop()
			time.Sleep(10 * ttl)
			_, err = engine.Schedule(0, blocks(time.Hour))
			require.NoError(t, err)
			other, err := lock.New(unclosed{mem}, &lock.Options{Terms: lock.Terms{TTL: ttl}})
			require.NoError(t, err)
			next, err := other.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			assert.Error(t, held.Err(), "told before another has it")
			require.ErrorIs(t, h.Err(), lock.ErrLost)
			assert.EqualValues(t, 1, client.Stats().Renewal.Overdue)
			synctest.Wait() // a goroutine writes the record
			assert.Contains(t, log.String(), "engine=*wheel.Wheel")
			require.NoError(t, next.Unlock(ctx))
			require.NoError(t, other.Close(ctx))
			require.NoError(t, client.Close(ctx))
		})
	}
}

// blocks is a task that blocks, as no task may.
type blocks time.Duration

func (b blocks) Run(schedule.Timer) { time.Sleep(time.Duration(b)) }

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
