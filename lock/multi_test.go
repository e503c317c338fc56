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
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// all returns the lock of several keys.
func (b *bench) all(keys ...string) lock.Locker {
	var locks []lock.Locker
	for _, k := range keys {
		locks = append(locks, b.Mutex(k))
	}
	return lock.Multi(locks...)
}

func lockAll(t *testing.T, l lock.Locker) *lock.Held {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	return h
}

func TestAMultiHoldsAllOfItsLocks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("b", "a", "c"))
		assert.Equal(t, 3, b.mem.Len())
		settle(time.Hour)
		assert.True(t, h.Valid())
		require.NoError(t, h.Err())
		assert.False(t, closed(h.Done()))
		assert.Equal(t, "b, a, c", h.Key())
		assert.Equal(t, `exclusive lease of "b", exclusive lease of "a", exclusive lease of "c"`, h.String())
		assert.Zero(t, h.Token())
		deadline := h.Deadline()
		for i, m := range h.Members() {
			assert.Equal(t, []string{"b", "a", "c"}[i], m.Key(), "in the order in which they were named")
			assert.NotZero(t, m.Token())
			assert.False(t, m.Deadline().Before(deadline), "the first to end decides")
			assert.Equal(t, []*lock.Held{m}, m.Members())
		}
		require.NoError(t, h.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		assert.False(t, h.Valid())
		assert.True(t, closed(h.Done()))
		assert.Zero(t, h.Deadline())
		assert.Equal(t, lock.ErrNotHeld, h.Err())
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

func TestAMultiTakesAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		taken := b.lock("c")
		_, err := b.all("a", "b", "c", "d").TryLock(ctx)
		var held *lock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "c", held.Key)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Equal(t, 1, b.mem.Len(), "nothing stays behind")
		assert.Equal(t, 1, b.Stats().Renewal.Held)
		require.NoError(t, taken.Unlock(ctx))

		h, err := b.all("a", "b", "c", "d").TryLock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))

		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire && b.mem.Len() == 2 {
				return errIO
			}
			return nil
		})
		_, err = b.all("a", "b", "c").Lock(ctx)
		require.ErrorIs(t, err, errIO)
		require.ErrorContains(t, err, `"c"`)
		b.heal()
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
	})
}

// It waits for the one that is taken, and holds nothing meanwhile.
func TestAMultiHoldsNothingWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c, a := b.lock("c"), b.lock("a")
		var h *lock.Held
		var wg sync.WaitGroup
		wg.Go(func() { h = lockAll(t, b.all("a", "b", "c")) })
		settle(time.Second)
		assert.Equal(t, 1, b.Stats().Waiting)
		require.NoError(t, a.Unlock(ctx))
		settle(time.Second)
		assert.Equal(t, 1, b.mem.Len(), "of a, which it got, it has let go")
		assert.Equal(t, 1, b.Stats().Waiting)
		acquires := b.calls(locktest.Acquire)
		require.NoError(t, b.lock("a").Unlock(ctx))
		settle(time.Minute)
		assert.LessOrEqual(t, b.calls(locktest.Acquire)-acquires, 1000, "it asks for c alone")
		require.NoError(t, c.Unlock(ctx))
		wg.Wait()
		assert.Equal(t, 3, b.mem.Len())
		require.NoError(t, h.Unlock(ctx))
	})
}

// swapped hides what lock it is.
type swapped struct{ lock.Locker }

// Each holder wants what another has: as many as there are, in a ring, and two in
// opposite order. The store takes its time, so that they meet.
func TestMultisNeverDeadlock(t *testing.T) {
	rings := map[string][][]string{
		"opposite": {{"a", "b"}, {"b", "a"}},
		"ring":     {{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "a"}},
		"mixed":    {{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}, {"b"}},
	}
	for name, ring := range rings {
		contend := func(t *testing.T, b *bench) {
			b.loseRequests(func(context.Context, locktest.Op) error {
				time.Sleep(time.Millisecond)
				return nil
			})
			const rounds = 50
			ex := locktest.NewExclusion()
			var wg sync.WaitGroup
			for _, keys := range ring {
				wg.Go(func() {
					for range rounds {
						b.holdAll(ex, keys)
					}
				})
			}
			wg.Wait()
			assert.Empty(t, ex.Violations())
			assert.Zero(t, b.mem.Len())
		}
		t.Run(name, func(t *testing.T) { bubble(t, contend) })
		t.Run(name+" in queues", func(t *testing.T) { waiting(t, nil, contend) })
	}
}

// holdAll holds several locks for a moment.
func (b *bench) holdAll(ex *locktest.Exclusion, keys []string) {
	h, err := b.all(keys...).Lock(ctx)
	if !assert.NoError(b.t, err) {
		return
	}
	for _, m := range h.Members() {
		ex.Enter(m.Key(), m.Token())
	}
	time.Sleep(time.Millisecond)
	assert.True(b.t, h.Valid())
	for _, m := range h.Members() {
		ex.Leave(m.Key(), m.Token())
	}
	assert.NoError(b.t, h.Unlock(ctx))
}

func TestAMultiThatIsWaitingEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("b")
		for _, l := range []lock.Locker{b.all("a", "b"), b.all("b", "a")} {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			start := time.Now()
			_, err := l.Lock(short)
			assert.Equal(t, 5*time.Second, time.Since(start))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.ErrorContains(t, err, `"b"`)
			assert.Equal(t, 1, b.mem.Len())
			_, err = l.TryLock(short)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = l.Lock(nil) //nolint:staticcheck // the nil is what is tested
			require.ErrorContains(t, err, "context is nil")
		}
	})
}

// What was taken is given back within the bound of Unlock, or of ctx.
func TestGivingBackIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.lock("c")
		b.loseRequests(hang(locktest.Release))
		start := time.Now()
		_, err := b.all("a", "b", "c").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Equal(t, 3*time.Second, time.Since(start), "both at the same time")

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		start = time.Now()
		_, err = b.all("d", "e", "c").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		b.heal()
		settle(10 * time.Second)
		assert.Equal(t, 1, b.mem.Len(), "in the background")
	})
}

// Members that were got early have their full TTL when the last one is got.
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
			for _, m := range h.Members() {
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

// A maximum hold counts from the first request, renewals or not.
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

// slowly makes each acquire last for some seconds, and calls f before the second.
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

// A member that is gone before the last one is got: only its owner renews it.
func TestAMemberLostWhileTheOthersAreGot(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.slowly(func() {
			if b.mem.Delete("a") {
				_, err := b.mem.Acquire(ctx, lock.Request{Key: "a", Owner: "another", TTL: ttl / 2})
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
		store := b.store.Store
		b.store.Store = silent{store}
		_, err = b.all("a", "b").Lock(ctx)
		require.ErrorContains(t, err, "has not answered")
		b.store.Store = store

		b.loseAnswers(hang(locktest.Renew))
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

// silent says nothing of the leases that it is to renew.
type silent struct{ lock.Store }

func (silent) Renew(context.Context, []lock.Lease, []renewal.Outcome) error { return nil }

// Close ends a Lock that refreshes, and waits for it.
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
				<-forever // whatever its ctx
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

func TestTheLossOfOneEndsTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b", "c"))
		scope, stop := h.Context(ctx)
		defer stop()
		b.mem.Delete("b")
		<-h.Done()
		assert.False(t, h.Valid())
		require.ErrorIs(t, h.Err(), lock.ErrLost)
		require.ErrorContains(t, h.Err(), `"b"`)
		assert.Zero(t, h.Deadline())
		<-scope.Done()
		require.ErrorIs(t, context.Cause(scope), lock.ErrLost)
		before := h.Err()

		settle(time.Hour)
		assert.Equal(t, 2, b.mem.Len(), "the others stay until the holder has stopped")
		assert.True(t, h.Members()[0].Valid())
		b.mem.Delete("c")
		settle(time.Hour)
		assert.Equal(t, before, h.Err(), "the answer never changes")
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, lock.ErrLost)
		assert.Zero(t, b.mem.Len())
		assert.Equal(t, before, h.Err())
	})
}

func TestAMultiLooksAtTheClock(t *testing.T) {
	bubbleWith(t, &lock.Options{Scheduler: new(frozen)}, func(t *testing.T, b *bench) {
		one, two := lockAll(t, b.all("a", "b")), lockAll(t, b.all("c", "d"))
		time.Sleep(ttl)
		assert.False(t, one.Valid())
		require.ErrorIs(t, one.Err(), lock.ErrLost)
		assert.True(t, closed(two.Done()))
		require.ErrorIs(t, two.Unlock(ctx), lock.ErrLost)
	})
	bubbleWith(t, &lock.Options{Scheduler: new(frozen)}, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b"))
		time.Sleep(ttl)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, h.Err(), lock.ErrLost, "the loss came first")
	})
}

func TestAMultiRefusesWhatWouldWaitForItself(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		same, err := lock.New(b.store, nil)
		require.NoError(t, err)
		other, err := lock.New(kept{memstore.New()}, nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		foreign := &swapped{b.Mutex("k")}
		odd := lock.Multi(uncomparable{Locker: b.Mutex("x")}, uncomparable{Locker: b.Mutex("y")})
		for _, tc := range []struct {
			want string
			lock lock.Locker
		}{
			{"no locks", lock.Multi()},
			{"no locks", lock.Multi(b.Mutex("a"), lock.Multi())},
			{"lock 1 of Multi is nil", lock.Multi(b.Mutex("a"), nil)},
			{"lock 2 of Multi is lock 0 again", lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(b.Reentrant("a"), b.With(lock.Terms{TTL: time.Minute}).Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(b.Mutex("a"), same.Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(foreign, foreign)},
			{"lock 3 of Multi is lock 1 again", lock.Multi(b.Mutex("a"), lock.Multi(b.Mutex("b"), b.Mutex("c")), b.Mutex("b"))},
			{"not made by a Client", lock.Multi(b.Mutex("a"), (*lock.Mutex)(nil))},
			{"not made by a Client", lock.Multi(b.Mutex("a"), (*lock.Reentrant)(nil))},
		} {
			_, err := tc.lock.Lock(ctx)
			require.ErrorContains(t, err, tc.want)
			_, err = tc.lock.TryLock(ctx)
			require.ErrorContains(t, err, tc.want)
			assert.Zero(t, b.mem.Len())
		}
		for _, l := range []lock.Locker{
			lock.Multi(b.Mutex("a"), other.Mutex("a")), // another store
			lock.Multi(b.all("a", "b"), b.Mutex("c")),
			odd,
		} {
			h := lockAll(t, l)
			assert.NotZero(t, b.mem.Len())
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

type uncomparable struct {
	lock.Locker
	_ []int
}

// A store whose values cannot be compared: its clients can.
func TestAMultiOnAStoreThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type odd struct {
			kept
			_ []int
		}
		client, err := lock.New(odd{kept: kept{memstore.New()}}, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		_, err = lock.Multi(client.Mutex("a"), client.Mutex("a")).Lock(ctx)
		require.ErrorContains(t, err, "again")
		h := lockAll(t, lock.Multi(client.Mutex("a"), client.Mutex("b")))
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestAMultiOverSeveralStores(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		mem := memstore.New()
		other, err := lock.New(kept{mem}, &lock.Options{Terms: lock.Terms{TTL: time.Second}})
		require.NoError(t, err)
		h := lockAll(t, lock.Multi(b.Mutex("a"), other.Mutex("a")))
		settle(time.Hour)
		assert.True(t, h.Valid())
		assert.Equal(t, 1, mem.Len())
		inside, stop := h.Context(ctx)
		defer stop()
		require.NoError(t, other.Close(ctx))
		<-inside.Done()
		require.ErrorIs(t, h.Err(), lock.ErrClosed)
		_, err = b.Reentrant("a").Lock(context.WithoutCancel(inside))
		require.ErrorIs(t, err, lock.ErrClosed, "the whole has ended")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrClosed)
		assert.Zero(t, b.mem.Len()+mem.Len())
	})
}

func TestUnlockingAMemberEndsTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		h := lockAll(t, b.all("a", "b"))
		require.NoError(t, h.Members()[1].Unlock(ctx))
		synctest.Wait()
		assert.True(t, closed(h.Done()))
		require.ErrorIs(t, h.Err(), lock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrNotHeld)
		assert.Zero(t, b.mem.Len())
	})
}

func TestAMultiAndReentrants(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		a := b.reentrant("a")
		inside, stop := a.Context(ctx)
		defer stop()
		both := lock.Multi(b.Reentrant("a"), b.Reentrant("b"))
		h, err := both.Lock(inside)
		require.NoError(t, err, "a is entered again, b is got")
		assert.Equal(t, 2, b.calls(locktest.Acquire))

		deep, stopDeep := h.Context(inside)
		defer stopDeep()
		again, err := both.Lock(deep)
		require.NoError(t, err, "the context has the ownership of all")
		assert.Equal(t, 2, b.calls(locktest.Acquire))
		require.NoError(t, again.Unlock(ctx))
		assert.True(t, h.Valid())

		b.mem.Delete("a")
		<-h.Done()
		_, err = b.Reentrant("b").Lock(context.WithoutCancel(deep))
		require.ErrorIs(t, err, lock.ErrLost, "what is lost is the whole")
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, a.Unlock(ctx), lock.ErrLost)
		assert.Zero(t, b.mem.Len())

		// A member that cannot be got leaves the one that was entered as it was.
		a = b.reentrant("a")
		inside, stop = a.Context(ctx)
		defer stop()
		b.lock("b")
		_, err = both.TryLock(inside)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.True(t, a.Valid())
		require.NoError(t, a.Unlock(ctx))
		assert.Equal(t, 1, b.mem.Len())
	})
}

func TestDoWithAMulti(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		errWork := errors.New("work failed")
		err := lock.Do(ctx, b.all("a", "b"), func(ctx context.Context) error {
			assert.Equal(t, 2, b.mem.Len())
			return errWork
		})
		require.ErrorIs(t, err, errWork)
		assert.Zero(t, b.mem.Len())
		err = lock.Do(ctx, b.all("a", "b"), func(ctx context.Context) error {
			b.mem.Delete("b")
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, lock.ErrLost)
		assert.Zero(t, b.mem.Len())
		b.loseRequests(always(locktest.Release, errIO))
		require.NoError(t, lock.Do(ctx, b.all("a", "b"), func(context.Context) error { return nil }), "the work was done")
		b.heal()
		settle(time.Second)
		assert.Zero(t, b.mem.Len())
	})
}

func TestAMultiUnlocksItsMembersAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprint(i))
		}
		h := lockAll(t, b.all(keys...))
		b.loseRequests(hang(locktest.Release))
		start := time.Now()
		err := h.Unlock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `unlock "0"`)
		require.ErrorContains(t, err, `unlock "19"`)
		assert.Equal(t, 3*time.Second, time.Since(start))
		b.heal()
		settle(5 * time.Second)
		assert.Zero(t, b.mem.Len())
	})
}
