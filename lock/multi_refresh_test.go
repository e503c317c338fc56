package lock_test

import (
	"context"
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
)

// Members that were acquired early have their full TTL when the last member is acquired.
func TestAMultiIsFreshWhenItIsGot(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		bubble(t, func(t *testing.T, b *bench) {
			b.loseRequests(func(_ context.Context, op locktest.Op) error {
				if op == locktest.Acquire {
					time.Sleep(2 * time.Second)
				}
				return nil
			})
			c := b.With(lock.Terms{Fixed: fixed})
			h := lockAll(t, lock.Multi(c.Mutex("a"), c.Mutex("b"), c.Mutex("c")))
			for _, m := range h.Handles() {
				assert.Equal(t, ttl, b.mem.ExpiresIn(m.Key()))
				assert.Equal(t, ttl*98/100, time.Until(m.Deadline()))
			}
			start := time.Now()
			settle(ttl - time.Second)
			assert.Equal(t, !fixed, h.Deadline().After(start.Add(ttl)))
			settle(ttl)
			assert.Equal(t, !fixed, h.Valid())
		})
	}
	bubble(t, func(t *testing.T, b *bench) {
		require.NoError(t, lockAll(t, b.all("a", "b", "c")).Unlock(ctx))
		assert.Zero(t, b.calls(locktest.Renew), "what is fresh is not renewed")
	})
}

// The maximum hold counts from the first request, even after renewals.
func TestAMultiKeepsTheMaximumHold(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		c := b.With(lock.Terms{MaxHold: time.Minute})
		start := time.Now()
		h := lockAll(t, lock.Multi(c.Mutex("a"), c.Mutex("b")))
		<-h.Done()
		assert.InDelta(t, 60, time.Since(start).Seconds(), 0.1)
	})
}

// slowly returns a fault that delays each acquire by some seconds and calls f before the second
// acquire.
func (b *bench) slowly(f func()) {
	b.loseRequests(func(_ context.Context, op locktest.Op) error {
		if op == locktest.Acquire {
			time.Sleep(2 * time.Second)
			if b.mem.Len() == 1 {
				f()
			}
		}
		return nil
	})
}

// A member is lost before the last member is acquired. A renewal must not extend the lease of
// its next owner.
func TestAMemberLostWhileTheOthersAreGot(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {
			if b.mem.Delete("a") {
				_, err := b.mem.Acquire(ctx, driver.Request{Key: "a", Owner: "another", TTL: ttl / 2})
				assert.NoError(t, err)
			}
		})
		_, err := b.all("a", "b").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, `"a"`)
		assert.Equal(t, ttl/2, b.mem.ExpiresIn("a"))
		assert.Zero(t, b.mem.ExpiresIn("b"))
	})
}

func TestARefreshToleratesOneFailure(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {})
		b.loseAnswers(once(locktest.Renew, errIO))
		h := lockAll(t, b.all("a", "b"))
		assert.Equal(t, ttl, b.mem.ExpiresIn("a"))
		require.NoError(t, h.Unlock(ctx))

		b.loseAnswers(always(locktest.Renew, errIO))
		_, err := b.all("a", "b").Lock(ctx)
		require.ErrorIs(t, err, errIO)
		require.ErrorContains(t, err, `"a"`)
		assert.Zero(t, b.mem.Len())

		b.heal()
		b.slowly(func() {})
		store := b.mem
		b.store.Over(silent{store})
		_, err = b.all("a", "b").Lock(ctx)
		require.EqualError(t, err, `lock: "a": store unavailable`)
		b.store.Over(store)

		b.loseAnswers(hang(locktest.Renew))
		_, err = b.all("a", "b").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorIs(t, err, lock.ErrLost, "the lease has ended")
		require.NotErrorIs(t, err, context.DeadlineExceeded, "ctx has not")
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
		short, cancel := context.WithTimeout(ctx, 4500*time.Millisecond)
		defer cancel()
		start, renewals := time.Now(), b.calls(locktest.Renew)
		_, err = b.all("a", "b").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 4500*time.Millisecond, time.Since(start))
		assert.Equal(t, 2, b.calls(locktest.Renew)-renewals, "no repeat when ctx has ended")
		b.heal()
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

// silent is a store whose Renew sets no outcome.
type silent struct{ driver.Store }

func (silent) Renew(context.Context, []driver.Lease, []renewal.Outcome) error { return nil }

// Close ends a Multi that renews its members, and waits for it.
func TestCloseWhileAMultiIsRefreshed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {})
		b.loseAnswers(hang(locktest.Renew))
		go func() {
			time.Sleep(5 * time.Second)
			assert.NoError(t, b.Close(ctx))
		}()
		start := time.Now()
		_, err := b.all("a", "b").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		assert.Equal(t, 5*time.Second, time.Since(start))
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {})
		forever := make(chan struct{})
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew {
				<-forever // ignores its ctx
			}
			return nil
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := b.all("a", "b").Lock(ctx)
			assert.Error(t, err)
		}()
		settle(5 * time.Second)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorContains(t, b.Close(short), "a call of the store is still under way")
		close(forever)
		<-done
	})
}

// The same holds for a Multi inside a foreign Locker inside a Multi.
func TestAMultiWithinAMultiIsFresh(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {})
		h := lockAll(t, lock.Multi(struct{ lock.Locker }{b.all("a", "b")}, b.Mutex("c")))
		for _, key := range []string{"a", "b", "c"} {
			assert.Equal(t, ttl, b.mem.ExpiresIn(key), key)
		}
		require.NoError(t, h.Unlock(ctx))

		b.slowly(func() {})
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire && b.mem.Len() == 3 {
				b.mem.Delete("a")
			}
			return nil
		})
		_, err := lock.Multi(struct{ lock.Locker }{b.all("a", "b")}, b.Mutex("c")).Lock(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
	})
}

// The client of one member is closed before the last member is acquired.
func TestAMemberWhoseClientIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		other := memstoreClient(t)
		closes, err := lock.New(locktest.Plain(memstore.New()), nil)
		require.NoError(t, err)
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(2 * time.Second)
				assert.NoError(t, closes.Close(ctx))
			}
			return nil
		})
		_, err = lock.Multi(other.Mutex("a"), closes.Mutex("a"), b.Mutex("a")).Lock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NoError(t, lockAll(t, other.Mutex("a")).Unlock(ctx), "the others are given back")
	})
}
