package lock_test

import (
	"context"
	"errors"
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

// stateful is waiting with a client whose locks have a state.
func stateful(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	waiting(t, &lock.Options{Terms: lock.Terms{StateTTL: time.Hour}}, test)
}

// has checks what a handle got with its lock.
func has(t *testing.T, h *lock.Held, data string, token uint64) {
	t.Helper()
	got, by := h.State()
	assert.Equal(t, data, string(got))
	assert.Equal(t, token, by)
}

func TestTheNextHolderGetsTheState(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		first := b.lock("k")
		has(t, first, "", 0)
		require.NoError(t, first.Save(ctx, []byte("one")))
		require.NoError(t, first.Save(ctx, []byte("two")))
		has(t, first, "", 0)
		require.NoError(t, first.Unlock(ctx))

		second, err := b.Mutex("k").TryLock(ctx)
		require.NoError(t, err)
		has(t, second, "two", first.Token())
		data, _ := second.State()
		clear(data)
		has(t, second, "two", first.Token())
		require.NoError(t, second.Unlock(ctx))
		assert.Equal(t, 2, b.calls(locktest.Wait)+b.calls(locktest.Acquire), "a free lock costs one request")

		leader, err := b.Election("k", "me").Campaign(ctx)
		require.NoError(t, err)
		has(t, leader, "two", first.Token())
		require.NoError(t, leader.Save(ctx, []byte("three")))
		require.NoError(t, leader.Unlock(ctx))

		outer, err := b.Reentrant("k").Lock(ctx)
		require.NoError(t, err)
		in, cancel := outer.Context(ctx)
		defer cancel()
		inner, err := b.Reentrant("k").Lock(in)
		require.NoError(t, err)
		has(t, inner, "three", leader.Token())
		require.NoError(t, outer.Save(ctx, []byte("outer")))
		require.NoError(t, inner.Save(ctx, []byte("inner")))
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))

		both, err := lock.Multi(b.Mutex("j"), b.Mutex("k")).Lock(ctx)
		require.NoError(t, err)
		has(t, both, "", 0)
		require.ErrorIs(t, both.Save(ctx, nil), errors.ErrUnsupported)
		has(t, both.Handles()[1], "inner", outer.Token())
		require.NoError(t, both.Handles()[0].Save(ctx, []byte("of j")))
		require.NoError(t, both.Unlock(ctx))
		has(t, b.lock("j"), "of j", both.Handles()[0].Token())
	})
}

// stateless is a store whose Wait does not tell the state, like a message of a server.
type stateless struct{ *memstore.Store }

func (s stateless) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	l, err := s.Store.Wait(ctx, r, queued)
	l.Saved = nil
	return l, err
}

func TestAWaiterAsksForTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(locktest.Faulty).Over(stateless{memstore.New()})
		asked := 0
		store.Before = func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire {
				if asked++; asked == 1 {
					return errIO
				}
			}
			return nil
		}
		client, err := lock.New(store, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		plain, err := client.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, plain.Unlock(ctx))
		assert.Zero(t, asked)

		m := client.With(lock.Terms{StateTTL: time.Hour}).Mutex("k")
		h, err := m.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, 2, asked, "the first request is lost")
		require.NoError(t, h.Save(ctx, []byte("one")))
		require.NoError(t, h.Unlock(ctx))
		next, err := m.Lock(ctx)
		require.NoError(t, err)
		has(t, next, "one", h.Token())
		assert.Equal(t, 3, asked)
	})
}

// The holder learns from its Save that it has lost the lock, and the next holder's state stays.
func TestASaveOfAFormerHolder(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		old := b.lock("k")
		require.NoError(t, old.Save(ctx, []byte("old")))
		b.mem.Delete("k")
		next := b.lock("k")
		has(t, next, "old", old.Token())
		require.NoError(t, next.Save(ctx, []byte("next")))
		require.NoError(t, old.Err(), "nobody has told it")

		err := old.Save(ctx, []byte("late"))
		require.ErrorIs(t, err, lock.ErrLost)
		require.EqualError(t, err, `lock: save "k": lease lost: no longer owned`)
		require.ErrorIs(t, old.Err(), lock.ErrLost)
		synctest.Wait()
		assert.True(t, closed(old.Done()))
		saves := b.calls(locktest.Save)
		require.ErrorIs(t, old.Save(ctx, nil), lock.ErrLost)
		assert.Equal(t, saves, b.calls(locktest.Save), "no request is sent for a lock that has ended")
		require.NoError(t, next.Unlock(ctx))
		has(t, b.lock("k"), "next", next.Token())
	})
}

func TestASaveWithoutAnAnswerIsSentAgain(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(once(locktest.Save, errIO))
		require.NoError(t, h.Save(ctx, []byte("one")))
		assert.Equal(t, 2, b.calls(locktest.Save))
		b.loseAnswers(once(locktest.Save, errIO))
		require.NoError(t, h.Save(ctx, []byte("two")))
		assert.Equal(t, 4, b.calls(locktest.Save))

		b.loseRequests(always(locktest.Save, errIO))
		err := h.Save(ctx, []byte("three"))
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorIs(t, err, errIO)
		assert.Equal(t, 6, b.calls(locktest.Save))
		b.loseRequests(always(locktest.Save, driver.ErrWrongType))
		require.ErrorIs(t, h.Save(ctx, []byte("three")), driver.ErrWrongType)
		assert.Equal(t, 7, b.calls(locktest.Save), "another try would have the same answer")
		b.heal()
		assert.True(t, h.Valid())
		require.NoError(t, h.Unlock(ctx))
		has(t, b.lock("k"), "two", h.Token())
	})
}

func TestASaveThatHangs(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		b.loseRequests(hang(locktest.Save))
		call, cancel := context.WithTimeoutCause(ctx, time.Second, errIO)
		defer cancel()
		began := time.Now()
		err := h.Save(call, []byte("one"))
		require.ErrorIs(t, err, errIO)
		assert.Equal(t, time.Second, time.Since(began), "it ends with ctx")

		b.loseRequests(once(locktest.Save, errIO)) // and the second call hangs
		again := b.store.Before
		b.store.Before = func(ctx context.Context, op locktest.Op) error {
			if err := again(ctx, op); err != nil || op != locktest.Save {
				return err
			}
			return hang(op)(ctx, op)
		}
		deadline := h.Deadline()
		require.ErrorIs(t, h.Save(ctx, []byte("one")), lock.ErrUnavailable)
		assert.False(t, time.Now().After(deadline.Add(time.Millisecond)), "it ends with the lease that it began with")
		b.store.Before = again
		b.heal()
		require.NoError(t, h.Save(ctx, []byte("two")))
	})
}

// The save that began later wins, although it is executed first.
func TestSavesAtATime(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		let, first := make(chan struct{}), true
		var mu sync.Mutex // guards first
		b.loseRequests(func(_ context.Context, op locktest.Op) error {
			mu.Lock()
			waits := op == locktest.Save && first
			first = first && !waits
			mu.Unlock()
			if waits {
				<-let
			}
			return nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, h.Save(ctx, []byte("first"))) })
		synctest.Wait()
		require.NoError(t, h.Save(ctx, []byte("second")))
		close(let)
		wg.Wait()
		require.NoError(t, h.Unlock(ctx))
		has(t, b.lock("k"), "second", h.Token())
	})
}

func TestSaveRefusesBadInputBeforeAnyIO(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		require.NoError(t, h.Save(ctx, make([]byte, lock.MaxSavedLen)))
		require.ErrorContains(t, h.Save(ctx, make([]byte, lock.MaxSavedLen+1)), "65537")
		require.ErrorContains(t, h.Save(nil, nil), "nil") //nolint:staticcheck // that is the test
		require.NoError(t, h.Unlock(ctx))
		require.ErrorIs(t, h.Save(ctx, nil), lock.ErrNotHeld)
		plain, err := b.With(lock.Terms{StateTTL: lock.NoState}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		has(t, plain, "", 0)
		err = plain.Save(ctx, nil)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, `"k": the handle has no state; see Terms.StateTTL`)
		assert.Equal(t, 1, b.calls(locktest.Save))

		var zero lock.Held
		require.ErrorIs(t, zero.Save(ctx, nil), lock.ErrNotHeld)
		has(t, &zero, "", 0)
		last := b.lock("last")
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, last.Save(ctx, nil), lock.ErrClosed)
	})
}

func TestForget(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		h := b.lock("k")
		require.NoError(t, b.Forget(ctx, "k"))
		require.NoError(t, h.Save(ctx, []byte("one")))
		require.NoError(t, b.Forget(ctx, "k"))
		require.NoError(t, h.Unlock(ctx))
		has(t, b.lock("k"), "", 0)
		require.ErrorIs(t, b.Forget(ctx, ""), lock.ErrBadKey)
		require.ErrorContains(t, b.Forget(nil, "k"), "nil") //nolint:staticcheck // that is the test
		b.loseRequests(always(locktest.Forget, errIO))
		err := b.Forget(ctx, "k")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorContains(t, err, `forget the state of "k"`)
		require.ErrorContains(t, new(lock.Client).Forget(ctx, "k"), "New")
	})
}

func TestStateTTLIsChecked(t *testing.T) {
	stateful(t, func(t *testing.T, b *bench) {
		for _, bad := range []time.Duration{lock.MinTTL - 1, lock.MaxTTL + 1, -2} {
			_, err := b.With(lock.Terms{StateTTL: bad}).Mutex("k").Lock(ctx)
			require.ErrorContains(t, err, "Terms.StateTTL must be")
		}
		_, err := lock.New(b.mem, &lock.Options{Terms: lock.Terms{StateTTL: 1}})
		require.ErrorContains(t, err, "Options.StateTTL must be")

		locks := map[string]lock.Locker{
			"a read-write lock": b.RWMutex("k"), "read-write": b.RWMutex("k").RLocker(), "semaphore": b.Semaphore("k", 2), "batch": b.Batch("k", "a"),
		}
		for kind, l := range locks {
			_, err := l.Lock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported, kind)
			require.ErrorContains(t, err, kind)
			_, err = l.TryLock(ctx)
			require.ErrorIs(t, err, errors.ErrUnsupported, kind)
		}
		assert.Zero(t, b.calls(locktest.Acquire)+b.calls(locktest.Wait), "the store was not asked")
		h, err := b.With(lock.Terms{TTL: time.Minute}).Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Save(ctx, nil), "the terms are inherited")
	})
}

// untold is a store that grants locks without their state, like a wrapper that makes leases anew.
type untold struct{ stateless }

func (s untold) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	l, err := s.Store.Acquire(ctx, r)
	l.Saved = nil
	return l, err
}

// Without its state the work would begin anew, so the lock is given back.
func TestALockWithoutItsStateIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		client, err := lock.New(untold{stateless{mem}}, &lock.Options{Terms: lock.Terms{StateTTL: time.Hour}})
		require.NoError(t, err)
		defer client.Close(ctx)
		for _, get := range []func(context.Context) (*lock.Held, error){client.Mutex("k").Lock, client.Mutex("k").TryLock} {
			_, err = get(ctx)
			require.ErrorIs(t, err, lock.ErrUnavailable)
			require.ErrorContains(t, err, "without the state")
			synctest.Wait()
			assert.Zero(t, mem.Len())
		}
	})
}
