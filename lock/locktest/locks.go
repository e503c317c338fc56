package locktest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// newClient returns a client of the store with the case's TTL. It is closed at the
// end of the case, the store is not.
func (f *fixture) newClient() *lock.Client {
	f.Helper()
	var store lock.Store = struct{ lock.Store }{f.store}
	if waiter, ok := f.store.(lock.Waiter); ok {
		store = struct {
			lock.Store
			lock.Waiter
		}{f.store, waiter}
	}
	c, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: f.TTL}})
	require.NoError(f, err)
	f.Cleanup(func() { assert.NoError(f, c.Close(context.Background())) })
	return c
}

// lock gets a lock, which may have to be waited for.
func (f *fixture) lock(l lock.Locker) *lock.Held {
	f.Helper()
	return f.got(f.later(l))
}

// later locks in the background.
func (f *fixture) later(l lock.Locker) <-chan *lock.Held {
	got, done := make(chan *lock.Held, 1), make(chan struct{})
	go func() {
		defer close(done)
		defer close(got)
		h, err := l.Lock(f.ctx)
		switch {
		case err == nil:
			got <- h
		case f.ctx.Err() == nil: // or else the case is over
			assert.NoError(f, err)
		}
	}()
	f.Cleanup(func() { <-done })
	return got
}

// got expects that a lock is got in the background.
func (f *fixture) got(later <-chan *lock.Held) *lock.Held {
	f.Helper()
	select {
	case h, ok := <-later:
		require.True(f, ok, "Lock has failed")
		return h
	case <-time.After(f.patience()):
		require.Fail(f, "Lock does not get the lock")
		return nil
	}
}

// ended expects that a holder is told of the end of its lease.
func (f *fixture) ended(h *lock.Held) {
	f.Helper()
	select {
	case <-h.Done():
	case <-time.After(f.patience()):
		require.Fail(f, "the holder is not told that it has lost the lock", "Is it still renewed by the store?")
	}
}

// inside returns the context of a holder.
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
		time.Sleep(2 * f.TTL) // renewed all the while
		f.taken("k")
		require.NoError(f, inner.Unlock(f.ctx))
		f.taken("k")
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
		f.taken("k")
		assert.True(f, inner.Valid())
		require.NoError(f, inner.Unlock(f.ctx))
		f.acquire(f.request("k"))
	}},
	{name: "S1_only_its_own_context_enters_a_reentrant_lock", run: func(f *fixture) {
		c := f.newClient()
		inside := f.inside(f.lock(c.Reentrant(f.prefix + "k")))
		_, err := c.Reentrant(f.prefix + "k").TryLock(f.ctx)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		_, err = f.newClient().Reentrant(f.prefix + "k").TryLock(inside)
		require.ErrorIs(f, err, lock.ErrNotAcquired, "another client is another holder")
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
		require.ErrorIs(f, err, lock.ErrLost)
		next := f.acquire(f.request("k"))
		require.ErrorIs(f, inner.Unlock(f.ctx), lock.ErrLost)
		require.ErrorIs(f, outer.Unlock(f.ctx), lock.ErrLost)
		f.taken("k")
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

// enterTwice holds a lock, and holds it again inside.
func (f *fixture) enterTwice(ex *Exclusion, r *lock.Reentrant) {
	outer, err := r.Lock(f.ctx)
	if !assert.NoError(f, err) {
		return
	}
	ex.Enter(r.Key(), outer.Token())
	inside, stop := outer.Context(f.ctx)
	defer stop()
	if inner, err := r.Lock(inside); assert.NoError(f, err) {
		assert.NoError(f, inner.Unlock(f.ctx))
	}
	assert.True(f, outer.Valid())
	ex.Leave(r.Key(), outer.Token())
	assert.NoError(f, outer.Unlock(f.ctx))
}

var limiting = []testCase{
	{name: "a_fixed_lease_ends_with_its_TTL", ends: true, run: func(f *fixture) {
		h := f.lock(f.newClient().With(lock.Terms{TTL: f.TTL, Fixed: true}).Mutex(f.prefix + "k"))
		granted := time.Now() // at the latest
		f.ended(h)
		require.ErrorIs(f, h.Err(), lock.ErrLost)
		time.Sleep(f.TTL + f.TTL/20 - time.Since(granted))
		f.acquire(f.request("k")) // nobody has renewed it
		require.ErrorIs(f, h.Unlock(f.ctx), lock.ErrLost)
		f.taken("k")
	}},
	{name: "a_maximum_hold_ends_a_lock_that_is_renewed", ends: true, run: func(f *fixture) {
		start := time.Now()
		h := f.lock(f.newClient().With(lock.Terms{TTL: f.TTL, MaxHold: 2 * f.TTL}).Mutex(f.prefix + "k"))
		time.Sleep(f.TTL * 3 / 2)
		assert.True(f, h.Valid())
		f.taken("k")
		f.ended(h)
		require.ErrorIs(f, h.Err(), lock.ErrLost)
		assert.GreaterOrEqual(f, time.Since(start), 2*f.TTL-f.TTL/10)
		require.ErrorIs(f, h.Unlock(f.ctx), lock.ErrLost)
		time.Sleep(f.TTL + f.TTL/20) // at the latest
		f.acquire(f.request("k"))
	}},
}

// all returns the lock of several keys, by a client of its own.
func (f *fixture) all(keys ...string) lock.Locker {
	f.Helper()
	c := f.newClient()
	var locks []lock.Locker
	for _, k := range keys {
		locks = append(locks, c.Mutex(f.prefix+k))
	}
	return lock.Multi(locks...)
}

var several = []testCase{
	{name: "S8_several_locks_are_held_together", ends: true, run: func(f *fixture) {
		h := f.lock(f.all("a", "b", "c"))
		time.Sleep(2 * f.TTL)
		assert.True(f, h.Valid())
		for _, k := range []string{"a", "b", "c"} {
			f.taken(k)
		}
		require.NoError(f, h.Unlock(f.ctx))
		for _, k := range []string{"a", "b", "c"} {
			f.acquire(f.request(k))
		}
	}},
	{name: "S8_of_several_locks_none_is_held_if_one_is_taken", run: func(f *fixture) {
		f.acquire(f.request("b"))
		_, err := f.all("a", "b", "c").TryLock(f.ctx)
		var held *lock.HeldError
		require.ErrorAs(f, err, &held)
		assert.Equal(f, f.prefix+"b", held.Key)
		f.acquire(f.request("a"))
		f.acquire(f.request("c"))
	}},
	{name: "S8_who_waits_for_several_locks_holds_none", ends: true, run: func(f *fixture) {
		b := f.acquire(f.request("b"))
		got := f.later(f.all("a", "b"))
		time.Sleep(f.TTL / 10)
		a := f.lock(f.newClient().Mutex(f.prefix + "a"))
		require.NoError(f, f.store.Release(f.ctx, b))
		time.Sleep(f.TTL / 10)
		require.NoError(f, a.Unlock(f.ctx))
		h := f.got(got)
		assert.True(f, h.Valid())
		f.taken("a")
		f.taken("b")
		require.NoError(f, h.Unlock(f.ctx))
	}},
	{name: "S8_the_loss_of_one_of_several_ends_the_whole", ends: true, needs: needsDelete, run: func(f *fixture) {
		h := f.lock(f.all("a", "b"))
		f.Delete(f.T, f.store, f.prefix+"b")
		f.ended(h)
		assert.False(f, h.Valid())
		require.ErrorIs(f, h.Err(), lock.ErrLost)
		f.taken("a") // until the holder has stopped
		require.ErrorIs(f, h.Unlock(f.ctx), lock.ErrLost)
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
	for _, m := range h.Members() {
		ex.Enter(m.Key(), m.Token())
	}
	assert.True(f, h.Valid())
	for _, m := range h.Members() {
		ex.Leave(m.Key(), m.Token())
	}
	assert.NoError(f, h.Unlock(f.ctx))
}
