// Cases of Reentrant, MaxHold, fixed leases and Multi.

package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// newClient returns a client of the store with the case's TTL. The client is closed at
// the end of the case, but the store is not.
func (f *fixture) newClient() *lock.Client {
	f.Helper()
	return f.clientOf(f.store)
}

// clientOf is newClient for another store.
func (f *fixture) clientOf(s driver.Store) *lock.Client {
	f.Helper()
	c, err := lock.New(keptOpen{s}, &lock.Options{Terms: lock.Terms{TTL: f.TTL}})
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, c.Close(context.Background())) })
	return c
}

// keptOpen is a store that its client does not close.
type keptOpen struct{ driver.Store }

func (keptOpen) Shutdown(context.Context) error { return nil }

// lock acquires a lock and waits for it if necessary.
func (f *fixture) lock(l lock.Locker) *lock.Held {
	f.Helper()
	return f.awaitLock(f.lockAsync(l))
}

// lockAsync calls Lock in a goroutine.
func (f *fixture) lockAsync(l lock.Locker) <-chan *lock.Held {
	got, done := make(chan *lock.Held, 1), make(chan struct{})
	go func() {
		defer close(done)
		defer close(got)
		h, err := l.Lock(f.ctx)
		switch {
		case err == nil:
			got <- h
		case f.ctx.Err() == nil: // otherwise the case has ended
			assert.NoError(f, err)
		}
	}()
	f.Cleanup(func() { <-done })
	return got
}

// awaitLock waits until lockAsync has acquired its lock.
func (f *fixture) awaitLock(later <-chan *lock.Held) *lock.Held {
	f.Helper()
	select {
	case h, ok := <-later:
		require.True(f, ok, "Lock returned an error")
		return h
	case <-time.After(f.patience()):
		require.Fail(f, "Lock did not acquire the lock in time")
		return nil
	}
}

// ended expects that the holder notices the end of its lease.
func (f *fixture) ended(h *lock.Held) {
	f.Helper()
	select {
	case <-h.Done():
	case <-time.After(f.patience()):
		require.Fail(f, "the holder did not notice that it lost the lock", "Does the store still renew it?")
	}
}

// inside returns a context of the holder.
func (f *fixture) inside(h *lock.Held) context.Context {
	inside, stop := h.Context(f.ctx)
	f.Cleanup(stop)
	return inside
}

var reentering = []testCase{
	{name: "S7_a_reentrant_lock_ends_with_its_last_handle", ends: true, run: func(f *fixture) {
		r := f.newClient().Reentrant(f.prefix + "k")
		outer := f.lock(r)
		inner, err := r.Lock(f.inside(outer))
		require.NoError(f, err)
		assert.Equal(f, outer.Token(), inner.Token())
		time.Sleep(2 * f.TTL) // the client renews the lease
		f.heldByOther("k")
		require.NoError(f, inner.Unlock(f.ctx))
		f.heldByOther("k")
		assert.True(f, outer.Valid())
		require.NoError(f, outer.Unlock(f.ctx))
		f.acquire(f.request("k"))
	}},
	{name: "S7_the_first_handle_may_go_first", ends: true, run: func(f *fixture) {
		r := f.newClient().Reentrant(f.prefix + "k")
		outer := f.lock(r)
		inner, err := r.TryLock(f.inside(outer))
		require.NoError(f, err)
		require.NoError(f, outer.Unlock(f.ctx))
		time.Sleep(2 * f.TTL)
		f.heldByOther("k")
		assert.True(f, inner.Valid())
		require.NoError(f, inner.Unlock(f.ctx))
		f.acquire(f.request("k"))
	}},
	{name: "S1_only_its_own_context_enters_a_reentrant_lock", run: func(f *fixture) {
		c := f.newClient()
		inside := f.inside(f.lock(c.Reentrant(f.prefix + "k")))
		_, err := c.Reentrant(f.prefix + "k").TryLock(f.ctx)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		_, err = f.newClient().Reentrant(f.prefix + "k").TryLock(inside)
		require.ErrorIs(f, err, driver.ErrNotAcquired, "another client is a different holder")
	}},
	{name: "S5_a_lost_reentrant_lock_is_not_entered_again", ends: true, needs: needsDelete, run: func(f *fixture) {
		r := f.newClient().Reentrant(f.prefix + "k")
		outer := f.lock(r)
		inside := f.inside(outer)
		inner, err := r.Lock(inside)
		require.NoError(f, err)
		f.Delete(f.T, f.store, f.prefix+"k")
		f.ended(inner)
		_, err = r.Lock(inside)
		require.ErrorIs(f, err, driver.ErrLost)
		next := f.acquire(f.request("k"))
		require.ErrorIs(f, inner.Unlock(f.ctx), driver.ErrLost)
		require.ErrorIs(f, outer.Unlock(f.ctx), driver.ErrLost)
		f.heldByOther("k")
		f.rises(outer.Token(), next.Token)
	}},
	{name: "S1_reentrant_holders_exclude_each_other", run: func(f *fixture) {
		ex := NewExclusion()
		key := f.prefix + "k"
		var wg sync.WaitGroup
		for range 4 {
			r := f.newClient().Reentrant(key)
			wg.Go(func() {
				for range 10 {
					f.enterTwice(ex, r)
				}
			})
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.Equal(f, 40, ex.Entered())
	}},
}

// enterTwice acquires a lock, and enters it again from its own context.
func (f *fixture) enterTwice(ex *Exclusion, r *lock.Reentrant) {
	outer, err := r.Lock(f.ctx)
	if !assert.NoError(f, err) {
		return
	}
	ex.Enter(outer.Key(), outer.Token())
	inside, stop := outer.Context(f.ctx)
	defer stop()
	if inner, err := r.Lock(inside); assert.NoError(f, err) {
		assert.NoError(f, inner.Unlock(f.ctx))
	}
	assert.True(f, outer.Valid())
	ex.Leave(outer.Key(), outer.Token())
	assert.NoError(f, outer.Unlock(f.ctx))
}

var limiting = []testCase{
	{name: "a_fixed_lease_ends_with_its_TTL", ends: true, run: func(f *fixture) {
		h := f.lock(f.newClient().With(lock.Terms{TTL: f.TTL, Fixed: true}).Mutex(f.prefix + "k"))
		granted := time.Now() // at the latest
		f.ended(h)
		f.limited(h)
		f.outlast(granted)
		f.acquire(f.request("k")) // the client has not renewed it
		require.ErrorIs(f, h.Unlock(f.ctx), driver.ErrLost)
		f.heldByOther("k")
	}},
	{name: "a_maximum_hold_ends_a_lock_that_is_renewed", ends: true, run: func(f *fixture) {
		start := time.Now()
		h := f.lock(f.newClient().With(lock.Terms{TTL: f.TTL, MaxHold: 2 * f.TTL}).Mutex(f.prefix + "k"))
		time.Sleep(f.TTL * 3 / 2)
		assert.True(f, h.Valid())
		f.heldByOther("k")
		f.ended(h)
		f.limited(h)
		assert.GreaterOrEqual(f, time.Since(start), 2*f.TTL-f.TTL/10)
		require.ErrorIs(f, h.Unlock(f.ctx), driver.ErrLost)
		f.outlast(time.Now()) // at the latest
		f.acquire(f.request("k"))
	}},
}

// limited checks that a lease has ended because of its terms.
func (f *fixture) limited(h *lock.Held) {
	f.Helper()
	var lost *renewal.LostError
	require.ErrorAs(f, h.Err(), &lost)
	assert.Equal(f, renewal.ReasonLimitReached, lost.Reason)
}

// all returns a lock of several keys, with its own client.
func (f *fixture) all(keys ...string) lock.Locker {
	f.Helper()
	c := f.newClient()
	var locks []lock.Locker
	for _, k := range keys {
		locks = append(locks, c.Mutex(f.prefix+k))
	}
	return lock.Multi(locks...)
}

var multiLocks = []testCase{
	{name: "S8_several_locks_are_held_together", ends: true, run: func(f *fixture) {
		h := f.lock(f.all("a", "b", "c"))
		time.Sleep(2 * f.TTL)
		assert.True(f, h.Valid())
		for _, k := range []string{"a", "b", "c"} {
			f.heldByOther(k)
		}
		require.NoError(f, h.Unlock(f.ctx))
		for _, k := range []string{"a", "b", "c"} {
			f.acquire(f.request(k))
		}
	}},
	{name: "S8_of_several_locks_none_is_held_if_one_is_taken", run: func(f *fixture) {
		f.acquire(f.request("b"))
		_, err := f.all("a", "b", "c").TryLock(f.ctx)
		var held *driver.HeldError
		require.ErrorAs(f, err, &held)
		assert.Equal(f, f.prefix+"b", held.Key)
		f.acquire(f.request("a"))
		f.acquire(f.request("c"))
	}},
	{name: "S8_a_waiter_for_several_locks_holds_none", ends: true, run: func(f *fixture) {
		b := f.acquire(f.request("b"))
		got := f.lockAsync(f.all("a", "b"))
		time.Sleep(f.TTL / 10)
		a := f.lock(f.newClient().Mutex(f.prefix + "a"))
		require.NoError(f, f.store.Release(f.ctx, b))
		time.Sleep(f.TTL / 10)
		require.NoError(f, a.Unlock(f.ctx))
		h := f.awaitLock(got)
		assert.True(f, h.Valid())
		f.heldByOther("a")
		f.heldByOther("b")
		require.NoError(f, h.Unlock(f.ctx))
	}},
	{name: "S8_the_loss_of_one_lock_ends_all", ends: true, needs: needsDelete, run: func(f *fixture) {
		h := f.lock(f.all("a", "b"))
		f.Delete(f.T, f.store, f.prefix+"b")
		f.ended(h)
		assert.False(f, h.Valid())
		require.ErrorIs(f, h.Err(), driver.ErrLost)
		f.heldByOther("a") // held until the holder has stopped
		require.ErrorIs(f, h.Unlock(f.ctx), driver.ErrLost)
		f.acquire(f.request("a"))
	}},
	{name: "S8_holders_of_several_locks_exclude_each_other", run: func(f *fixture) {
		ex := NewExclusion()
		var wg sync.WaitGroup
		for _, l := range []lock.Locker{f.all("a", "b"), f.all("b", "a"), f.all("b", "c"), f.all("c", "a")} {
			wg.Go(func() {
				for range 10 {
					f.holdAll(ex, l)
				}
			})
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.Equal(f, 80, ex.Entered())
	}},
}

// holdAll holds several locks for a moment.
func (f *fixture) holdAll(ex *Exclusion, l lock.Locker) {
	h, err := l.Lock(f.ctx)
	if !assert.NoError(f, err) {
		return
	}
	for _, m := range h.Handles() {
		ex.Enter(m.Key(), m.Token())
	}
	assert.True(f, h.Valid())
	for _, m := range h.Handles() {
		ex.Leave(m.Key(), m.Token())
	}
	assert.NoError(f, h.Unlock(f.ctx))
}
