package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestTheLastHandleKeepsALock(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		for key, l := range map[string]lock.Locker{"k": b.Reentrant("k"), "g": b.Batch("g", "a", "b")} {
			outer := lockAll(t, l)
			inside, stop := outer.Context(ctx)
			defer stop()
			time.Sleep(time.Second)
			inner, err := l.Lock(inside)
			require.NoError(t, err)
			require.NoError(t, outer.Unlock(ctx))
			assert.Zero(t, b.rest(key), "it is still held")
			time.Sleep(time.Second)
			require.NoError(t, inner.Unlock(ctx))
			assert.Equal(t, minHold-2*time.Second, b.rest(key), "it counts from the first Lock")
		}
	})
}

func TestMinHoldOfAMulti(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		taken := b.taken("c")
		_, err := b.all("a", "b", "c").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Equal(t, 1, b.mem.Len(), "what was acquired in vain is given back at once")
		require.NoError(t, b.mem.Release(ctx, taken))

		h, err := b.all("a", "b", "c").TryLock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, h.Unlock(ctx))
		for _, key := range []string{"a", "b", "c"} {
			assert.Equal(t, minHold-time.Second, b.rest(key))
		}
	})
}

// Nobody has worked under the locks of a Multi that waits for the others.
func TestCloseFreesTheLocksOfAMultiThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		terms := lock.Terms{MinHold: minHold}
		client, err := lock.New(unclosed{mem}, &lock.Options{Terms: terms})
		require.NoError(t, err)
		_, err = client.Mutex("worked").Lock(ctx)
		require.NoError(t, err)
		complete, err := lock.Multi(client.Mutex("c"), lock.Multi(client.Reentrant("d"), client.Mutex("f")), lock.WaitAtMost(lock.Multi(client.Mutex("g"), client.Batch("e", "m")), time.Second)).Lock(ctx)
		require.NoError(t, err)
		other := func(key string) driver.Lease {
			l, err := mem.Acquire(ctx, driver.Request{Key: key, Owner: "other:" + key, TTL: time.Hour})
			require.NoError(t, err)
			return l
		}
		first := other("b")
		result := make(chan error, 1)
		go func() {
			_, err := lock.Multi(client.Mutex("a"), client.Mutex("b")).Lock(ctx)
			result <- err
		}()
		synctest.Wait() // the Multi has given a back and waits for b
		other("a")
		require.NoError(t, mem.Release(ctx, first))
		synctest.Wait() // it has b and waits a little for a
		require.Positive(t, mem.ExpiresIn("b"))
		require.NoError(t, client.Close(ctx))
		require.ErrorIs(t, <-result, lock.ErrClosed)
		assert.Zero(t, mem.ExpiresIn("b"))
		for _, key := range []string{"worked", "c", "d", "f", "g", "e"} {
			assert.Greater(t, mem.ExpiresIn(key), minHold-time.Minute, key)
		}
		require.ErrorIs(t, complete.Err(), lock.ErrClosed)
	})
}

// A Multi that fails unlocks its handle of a lock that its caller holds, and no more.
func TestAMultiThatFailsDoesNotEndMinHoldOfItsCaller(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		b.taken("taken")
		outer, err := b.Reentrant("a").Lock(ctx)
		require.NoError(t, err)
		inside, stop := outer.Context(ctx)
		defer stop()
		_, err = lock.Multi(b.Reentrant("a"), b.Mutex("taken")).TryLock(inside)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Unlock(ctx))
		assert.Equal(t, minHold, b.rest("a"))
	})
}
