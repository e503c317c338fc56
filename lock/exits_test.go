package lock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/locktest"
)

// exits is a store that ends the goroutine of every second call of an operation, as t.FailNow
// does.
func exits(op locktest.Op) func(context.Context, locktest.Op) error {
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
		assert.Zero(t, b.Stats().Releasing)
		assert.Zero(t, b.mem.Len())
	})
}

func TestCloseGoesOnAfterAReleaseThatExits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("a")
		b.lock("b")
		b.loseRequests(exits(locktest.Release))
		require.NoError(t, b.Close(ctx))
		assert.Zero(t, b.mem.Len())
	})
}

// A release or a renewal that ends its goroutine is not confirmed.
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
