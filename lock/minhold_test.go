package lock_test

import (
	"context"
	"errors"
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

const minHold = 5 * time.Minute // longer than the TTL

// keeping is waiting with a client whose locks have a MinHold.
func keeping(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	waiting(t, &lock.Options{Terms: lock.Terms{MinHold: minHold}}, test)
}

// rest returns for how long a key stays taken by nobody.
func (b *bench) rest(key string) time.Duration {
	b.t.Helper()
	info, err := b.Inspect(ctx, key)
	require.NoError(b.t, err)
	if info.FreeIn > 0 {
		assert.Zero(b.t, info.Held)
		assert.Empty(b.t, info.Holders)
	}
	return info.FreeIn
}

func TestMinHoldKeepsALockTaken(t *testing.T) {
	for name, work := range map[string]time.Duration{"at once": 0, "before the TTL": ttl / 2, "after the TTL": 3 * ttl} {
		t.Run(name, func(t *testing.T) {
			keeping(t, func(t *testing.T, b *bench) {
				h := b.lock("k")
				assert.Zero(t, b.rest("k"), "it has a holder")
				time.Sleep(work)
				require.NoError(t, h.Unlock(ctx))
				assert.Equal(t, minHold-work, b.rest("k"))
				_, err := b.Mutex("k").TryLock(ctx)
				var held *lock.HeldError
				require.ErrorAs(t, err, &held)
				assert.Equal(t, minHold-work, held.ExpiresIn)
				require.ErrorIs(t, h.Err(), lock.ErrNotHeld)

				time.Sleep(minHold - work - 1)
				_, err = b.Mutex("k").TryLock(ctx)
				require.ErrorIs(t, err, lock.ErrNotAcquired, "a nanosecond before")
				time.Sleep(time.Nanosecond)
				next, err := b.Mutex("k").TryLock(ctx)
				require.NoError(t, err)
				assert.Greater(t, next.Token(), h.Token())
			})
		})
	}
}

func TestALockThatWasHeldForMinHoldIsReleasedAtOnce(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		time.Sleep(minHold)
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
	})
}

// MinHold counts from the moment at which Lock has returned, not from that of its call.
func TestMinHoldCountsFromTheAnswer(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				time.Sleep(time.Second)
			}
			return nil
		})
		h, err := b.Mutex("k").TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		assert.Equal(t, minHold, b.rest("k"))
	})
}

// A lock that was lost is given back at once, because another should do its work.
func TestALossEndsMinHold(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(always(locktest.Renew, errIO))
		<-h.Done()
		b.heal()
		require.Positive(t, b.mem.ExpiresIn("k"), "the store still has it")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		synctest.Wait()
		assert.Zero(t, b.mem.Len())
	})
}

// A lock that ended because its terms say so is kept as after any other Unlock.
func TestAPlannedEndDoesNotEndMinHold(t *testing.T) {
	for name, terms := range map[string]lock.Terms{"MaxHold": {MaxHold: time.Minute}, "Fixed": {Fixed: true}} {
		t.Run(name, func(t *testing.T) {
			keeping(t, func(t *testing.T, b *bench) {
				h, err := b.With(terms).Mutex("k").Lock(ctx)
				require.NoError(t, err)
				start := time.Now()
				<-h.Done()
				require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
				synctest.Wait()
				assert.Equal(t, minHold-time.Since(start), b.rest("k"))
			})
		})
	}
}

func TestCloseKeepsLocksThatHaveAMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		client, err := lock.New(unclosed{mem}, &lock.Options{Terms: lock.Terms{MinHold: minHold}})
		require.NoError(t, err)
		for _, key := range []string{"a", "b"} {
			_, err := client.Mutex(key).Lock(ctx)
			require.NoError(t, err)
		}
		lockAll(t, client.Batch("g", "m", "n"))
		_, err = client.With(lock.Terms{MinHold: lock.NoMinHold}).Mutex("c").Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, client.Close(ctx))
		assert.Equal(t, minHold-time.Minute, mem.ExpiresIn("a"))
		assert.Equal(t, minHold-time.Minute, mem.ExpiresIn("b"))
		assert.Equal(t, minHold-time.Minute, mem.ExpiresIn("g"))
		assert.Zero(t, mem.ExpiresIn("c"))
	})
}

// The rest is that of the moment at which a release is sent, however often it must be sent.
func TestAReleaseThatIsRepeatedKeepsTheRest(t *testing.T) {
	t.Run("the answer is lost", func(t *testing.T) {
		keeping(t, func(t *testing.T, b *bench) {
			h := b.lock("k")
			time.Sleep(time.Second)
			b.loseAnswers(once(locktest.Release, errIO))
			require.NoError(t, h.Unlock(ctx))
			assert.Equal(t, 2, b.calls(locktest.Release))
			assert.Equal(t, minHold-time.Second, b.rest("k"))
		})
	})
	t.Run("in the background", func(t *testing.T) {
		keeping(t, func(t *testing.T, b *bench) {
			h := b.lock("k")
			b.loseRequests(hang(locktest.Release))
			require.ErrorIs(t, h.Unlock(ctx), lock.ErrUnavailable)
			time.Sleep(5 * time.Second)
			require.Positive(t, b.Stats().Releasing)
			b.heal()
			time.Sleep(5 * time.Second)
			require.Zero(t, b.Stats().Releasing)
			assert.Equal(t, minHold-13*time.Second, b.rest("k"))
		})
	})
}

func TestAnAbandonedAcquisitionIsNotKept(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		b.loseAnswers(always(locktest.Acquire, errIO))
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		b.heal()
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
	})
}

// A job that fails is not done again before the next period, and one that panics neither.
func TestDoKeepsALockWhateverTheFunctionReturns(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		err := lock.Do(ctx, b.Mutex("k"), func(context.Context, *lock.Held) error { return errIO })
		require.ErrorIs(t, err, errIO)
		assert.Equal(t, minHold, b.rest("k"))
		assert.Panics(t, func() {
			_ = lock.Do(ctx, b.Mutex("p"), func(context.Context, *lock.Held) error { panic("oops") })
		})
		assert.Equal(t, minHold, b.rest("p"))
	})
}

func TestMinHoldIsInheritedAndReplaced(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		for key, c := range map[string]struct {
			terms lock.Terms
			rest  time.Duration
		}{
			"inherited": {lock.Terms{TTL: time.Minute}, minHold},
			"replaced":  {lock.Terms{MinHold: time.Second}, time.Second},
			"removed":   {lock.Terms{MinHold: lock.NoMinHold}, 0},
		} {
			h, err := b.With(c.terms).Mutex(key).Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			assert.Equal(t, c.rest, b.rest(key), key)
		}
	})
}

func TestMinHoldIsRefusedWhereItHasNoMeaning(t *testing.T) {
	keeping(t, func(t *testing.T, b *bench) {
		locks := map[string]lock.Locker{
			"a read-write lock": b.RWMutex("k"), "a semaphore": b.Semaphore("k", 2), "an election": b.Election("k", "me"),
		}
		for kind, l := range locks {
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported, kind)
			require.ErrorContains(t, err, `"k": `+kind+" cannot have a MinHold")
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported, kind)
		}
		err := b.Election("k", "me").Run(ctx, func(context.Context, *lock.Held) error { return nil })
		require.ErrorIs(t, err, errors.ErrUnsupported)
		assert.Zero(t, b.calls(locktest.Acquire)+b.calls(locktest.Wait), "the store was not asked")

		h, err := b.With(lock.Terms{MinHold: lock.NoMinHold}).Election("k", "me").Campaign(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestMinHoldNeedsAStoreThatKeepsLocks(t *testing.T) {
	exclusive, err := lock.New(keepsExclusive{memstore.New()}, &lock.Options{Terms: lock.Terms{MinHold: time.Second}})
	require.NoError(t, err)
	defer exclusive.Close(ctx)
	_, err = exclusive.Batch("g", "a").TryLock(ctx)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = exclusive.Mutex("k").TryLock(ctx)
	require.NoError(t, err)
}

// keepsExclusive can keep locks of mode Exclusive only.
type keepsExclusive struct{ *memstore.Store }

func (keepsExclusive) Describe() driver.Description {
	return driver.Description{Keeps: driver.ModesOf(driver.Exclusive)}
}
