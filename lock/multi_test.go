package lock_test

import (
	"context"
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

// all returns a Multi of several keys.
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

// A Multi waits for the member that is taken, and holds no other member in the meantime.
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

// swapped hides the type of a lock.
type swapped struct{ lock.Locker }

// Each Multi wants a lock that another Multi holds: several in a ring, and two in opposite
// orders. The store is slow, so that they meet.
func TestMultisNeverDeadlock(t *testing.T) {
	rings := map[string][][]string{
		"opposite": {{"a", "b"}, {"b", "a"}},
		"ring":     {{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}, {"e", "a"}},
		"mixed":    {{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}, {"b"}},
	}
	for name, ring := range rings {
		contend := func(t *testing.T, b *bench, all func(...string) lock.Locker) {
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
						b.holdAll(ex, all(keys...))
					}
				})
			}
			wg.Wait()
			assert.Empty(t, ex.Violations())
			assert.Zero(t, b.mem.Len())
		}
		ordered := func(t *testing.T, b *bench) { contend(t, b, b.all) }
		unordered := func(t *testing.T, b *bench) { contend(t, b, b.allAsGiven) }
		t.Run(name, func(t *testing.T) { bubble(t, ordered) })
		t.Run(name+" in queues", func(t *testing.T) { waiting(t, nil, ordered) })
		t.Run(name+" without an order", func(t *testing.T) { bubble(t, unordered) })
		t.Run(name+" without an order, in queues", func(t *testing.T) { waiting(t, nil, unordered) })
	}
}

// allAsGiven is like all, but hides the keys from the Multi, so that it cannot sort them.
func (b *bench) allAsGiven(keys ...string) lock.Locker {
	locks := make([]lock.Locker, len(keys))
	for i, key := range keys {
		locks[i] = swapped{b.Mutex(key)}
	}
	return lock.Multi(locks...)
}

// Many Multis want the same two locks in opposite orders and all make progress. If each held
// one lock and waited for the other, nearly all of them would have to release and start again.
func TestManyMultisInOppositeOrders(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		const users, rounds, hold = 20, 10, 2 * time.Millisecond
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range users {
			keys := []string{"a", "b"}
			if i%2 == 1 {
				keys = []string{"b", "a"}
			}
			wg.Go(func() {
				for range rounds {
					h, err := b.all(keys...).Lock(ctx)
					if !assert.NoError(t, err) {
						return
					}
					assert.Equal(t, keys[0], h.Handles()[0].Key(), "as they were given")
					time.Sleep(hold)
					assert.NoError(t, h.Unlock(ctx))
				}
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(begun), 2*users*rounds*hold)
	})
}

// holdAll holds several locks for a moment.
func (b *bench) holdAll(ex *locktest.Exclusion, all lock.Locker) {
	h, err := all.Lock(ctx)
	if !assert.NoError(b.t, err) {
		return
	}
	for _, m := range h.Handles() {
		ex.Enter(m.Key(), m.Token())
	}
	time.Sleep(time.Millisecond)
	assert.True(b.t, h.Valid())
	for _, m := range h.Handles() {
		ex.Leave(m.Key(), m.Token())
	}
	assert.NoError(b.t, h.Unlock(ctx))
}

// A Multi gets its locks although other callers always wait for one of them, because it waits
// in the queues as well.
func TestAMultiIsServedAmongMany(t *testing.T) {
	contend := func(t *testing.T, b *bench) {
		b.loseRequests(func(context.Context, locktest.Op) error {
			time.Sleep(100 * time.Microsecond)
			return nil
		})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for !closed(stop) {
					h := b.lock([]string{"a", "b"}[i%2])
					time.Sleep(time.Millisecond)
					assert.NoError(t, h.Unlock(ctx))
				}
			})
		}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for range 10 {
			h, err := b.all("a", "b").Lock(limited)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}
		close(stop)
		wg.Wait()
	}
	t.Run("asking", func(t *testing.T) { bubble(t, contend) })
	t.Run("in queues", func(t *testing.T) { waiting(t, nil, contend) })
}

// A Multi does not wait on when a store fails, whether the store fails at once or after it has
// reported the lock as taken.
func TestAMultiThatWaitsIsToldOfFailures(t *testing.T) {
	for _, tc := range []struct {
		taken    int
		failure  error
		failures int
	}{
		{0, errIO, 2}, // one failure is tolerated
		{1, lock.ErrWrongType, 1},
	} {
		bubble(t, func(t *testing.T, b *bench) {
			first, failures := b.lock("b"), 0
			go func() {
				time.Sleep(time.Second)
				assert.NoError(t, first.Unlock(ctx))
				for range tc.taken {
					b.taken("a")
				}
				good := b.calls(locktest.Acquire) + 1 + tc.taken // it gets b
				b.loseRequests(func(_ context.Context, op locktest.Op) error {
					if op != locktest.Acquire || b.calls(op) <= good {
						return nil
					}
					failures++
					return tc.failure
				})
			}()
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := b.all("a", "b").Lock(limited)
			require.ErrorIs(t, err, tc.failure)
			require.NoError(t, limited.Err(), "at once")
			assert.Equal(t, tc.failures, failures)
		})
	}
}

// The context ends after the store has reported a lock as taken. The Multi releases the locks
// that it has acquired.
func TestAMultiWhoseContextEndsMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.taken("b")
		ended, cancel := context.WithCancel(ctx)
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Release {
				cancel()
			}
			return nil
		})
		_, err := b.all("a", "b").Lock(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorContains(t, err, `"b"`)
	})
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

// The release of acquired members ends with ctx, or within the time of an Unlock.
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

func TestAMultiRefusesWhatWouldWaitForItself(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		same, err := lock.New(b.store, nil)
		require.NoError(t, err)
		other, err := lock.New(locktest.Plain(memstore.New()), nil)
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
			{`lock 2 of Multi is lock 0 again, and would wait for it: "a"`, lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(b.Reentrant("a"), b.With(lock.Terms{TTL: time.Minute}).Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(b.Mutex("a"), same.Mutex("a"))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(foreign, foreign)},
			{`lock 1 of Multi is lock 0 again, and would wait for it: "s"`, lock.Multi(b.Semaphore("s", 2), b.Semaphore("s", 2))},
			{`lock 1 of Multi is lock 0 again, and would wait for it: "e"`, lock.Multi(b.Mutex("e"), b.Election("e", "a"))},
			{"not made by a Client", lock.Multi(b.Mutex("a"), (*lock.Election)(nil))},
			{`lock 1 of Multi is lock 0 again, and would wait for it: "a"`, lock.Multi(b.Mutex("a"), lock.WaitAtMost(b.all("a", "c"), time.Second))},
			{`lock 1 of Multi is lock 0 again, and would wait for it: "c"`, lock.Multi(
				lock.WaitAtMost(lock.WaitAtMost(b.all("b", "c"), time.Second), 0), lock.WaitAtMost(b.all("a", "c"), 0))},
			{"lock 1 of Multi is lock 0 again", lock.Multi(foreign, lock.WaitAtMost(foreign, time.Second))},
			{"the lock is nil", lock.Multi(lock.WaitAtMost(nil, 0), lock.WaitAtMost(nil, 0))},
			{"lock 3 of Multi is lock 1 again", lock.Multi(b.Mutex("a"), lock.Multi(b.Mutex("b"), b.Mutex("c")), b.Mutex("b"))},
			{"not made by a Client", lock.Multi(b.Mutex("a"), (*lock.Mutex)(nil))},
			{"not made by a Client", lock.Multi(b.Mutex("a"), (*lock.Reentrant)(nil))},
			{"lock 1 of Multi: not held: Lock returned neither", lock.Multi(b.Mutex("a"), empty{})},
			{"lock 1 of Multi: not held: Lock returned neither", lock.Multi(b.Mutex("a"), empty{new(lock.Held)})},
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
			lock.Multi(lock.WaitAtMost(b.all("a", "b"), time.Second), b.Mutex("c")),
			lock.Multi(b.Semaphore("a", 2), b.Semaphore("b", 2)),
			lock.Multi(b.Election("a", "name"), b.Election("b", "name")),
			odd,
		} {
			h := lockAll(t, l)
			assert.NotZero(t, b.mem.Len())
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

// empty is a foreign Locker that returns a zero handle.
type empty struct{ held *lock.Held }

func (e empty) Lock(context.Context) (*lock.Held, error)    { return e.held, nil }
func (e empty) TryLock(context.Context) (*lock.Held, error) { return e.held, nil }

func TestDoRefusesToWorkWithoutALock(t *testing.T) {
	for _, l := range []lock.Locker{empty{}, empty{new(lock.Held)}} {
		err := lock.Do(ctx, l, func(context.Context, *lock.Held) error {
			t.Error("it is called")
			return nil
		})
		require.ErrorIs(t, err, lock.ErrNotHeld)
	}
}

type uncomparable struct {
	lock.Locker
	_ []int
}

// The values of this store cannot be compared, so the Multi compares the clients.
func TestAMultiOnAStoreThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type odd struct {
			driver.Store
			_ []int
		}
		client, err := lock.New(odd{Store: locktest.Plain(memstore.New())}, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		_, err = lock.Multi(client.Mutex("a"), client.Mutex("a")).Lock(ctx)
		require.ErrorContains(t, err, "again")
		h := lockAll(t, lock.Multi(client.Mutex("a"), client.Mutex("b")))
		require.NoError(t, h.Unlock(ctx))
	})
}

// far is the fault of a distant store: each request takes 300 ms there and back.
func far(ctx context.Context, _ locktest.Op) error {
	select {
	case <-time.After(150 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The store needs more time for an answer than a Multi waits while it holds a part of its
// locks.
func TestAMultiOfAStoreFarAway(t *testing.T) {
	for _, waits := range []bool{false, true} {
		bubbleOn(t, nil, waits, func(t *testing.T, b *bench) {
			y := b.taken("y")
			b.loseRequests(far)
			b.loseAnswers(far)
			both := b.pend(b.all("x", "y"))
			settle(10 * time.Second)
			require.NoError(t, b.mem.Release(ctx, y))
			settle(5 * time.Second)
			require.Len(t, both, 1, "waits: %v", waits)
			require.NoError(t, (<-both).Unlock(ctx))
		})
	}
}

// On a distant store, too, a Multi waits in the queue of one lock while it holds the other.
func TestAMultiQueuesFarAway(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		y := b.taken("y")
		b.loseRequests(far)
		b.loseAnswers(far)
		both := b.pend(b.all("x", "y"))
		settle(10 * time.Second)
		x := b.taken("x")
		require.NoError(t, b.mem.Release(ctx, y))
		for b.mem.Waiting("x") == 0 {
			settle(time.Millisecond)
		}
		require.NoError(t, b.mem.Release(ctx, x))
		settle(500 * time.Millisecond) // long enough for the answer and the renewal of y, but not for a second acquire of y
		require.Len(t, both, 1)
		require.NoError(t, (<-both).Unlock(ctx))
	})
}
