package lock_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/locktest"
)

// exits is a store that ends the goroutine of every second call of an operation, as
// t.FailNow does.
func exits(op locktest.Op) fault {
	calls := make(chan bool, 1)
	calls <- true
	return func(_ context.Context, got locktest.Op) error {
		if got != op {
			return nil
		}
		exit := <-calls
		calls <- !exit
		if exit {
			runtime.Goexit()
		}
		return nil
	}
}

func TestTheCleanerGoesOnAfterAReleaseThatExits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseAnswers(always(locktest.Acquire, errIO))
		b.loseRequests(exits(locktest.Release))
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, errIO)
		settle(time.Second)
		assert.Zero(t, b.Stats().Cleaning)
		assert.Zero(t, b.mem.Len())
	})
}

func TestCloseDoesNotWaitForAReleaseThatExits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("a")
		b.lock("b")
		b.loseRequests(exits(locktest.Release))
		start := time.Now()
		err := b.Close(ctx)
		require.ErrorContains(t, err, "1 of 2 locks not released")
		require.ErrorContains(t, err, "goroutine")
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, b.mem.Len())
	})
}

// Nobody has confirmed such a release, or a renewal.
func TestAMultiTellsOfCallsThatExit(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b"))
		b.loseRequests(exits(locktest.Release))
		require.ErrorContains(t, h.Unlock(ctx), "goroutine")
		settle(ttl)
		b.slowly(func() {})
		b.loseAnswers(exits(locktest.Renew))
		_, err := b.all("a", "b").Lock(ctx)
		require.ErrorContains(t, err, "goroutine")
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

func TestQuorumOfStoresThatExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, q := newServers(t, 3)
		all.fail(2, func(context.Context, locktest.Op) error {
			runtime.Goexit()
			return nil
		})
		start := time.Now()
		_, err := q.Acquire(context.Background(), request("k", "a"))
		require.ErrorContains(t, err, "2 of 3 stores failed: ")
		require.ErrorContains(t, err, "goroutine")
		assert.Zero(t, time.Since(start))
		synctest.Wait()
		assert.Zero(t, all.holding("k"))
		all.fail(1, nil)
		acquire(t, q, "k", "b")
	})
}
