// The cases of locks that are kept after their release.

package locktest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func needsKept(c Config) bool { return c.can.Keeps != 0 }

func needsKeptBatches(c Config) bool {
	return c.can.Keeps.Has(driver.Members) && slices.Contains(c.Modes, driver.Members)
}

// keptModes returns the modes whose locks the store can keep.
func (f *fixture) keptModes() []driver.Mode {
	return slices.DeleteFunc(f.allModes(), func(m driver.Mode) bool { return !f.can.Keeps.Has(m) })
}

// kept returns the lease with an instant until which its release keeps the lock taken.
func kept(l driver.Lease, keep time.Duration) driver.Lease {
	var attrs driver.Attrs
	if l.Attrs != nil {
		attrs = *l.Attrs
	}
	attrs.KeepUntil = time.Now().Add(keep)
	l.Attrs = &attrs
	return l
}

// leftOnceReleased returns the time until the lock is free, which must be at most keep after its
// release. The last member of a quorum, which has no tokens, may execute that a little later.
func (f *fixture) leftOnceReleased(r driver.Request, keep time.Duration) time.Duration {
	f.Helper()
	for end := time.Now().Add(keep / 4); ; time.Sleep(time.Millisecond) {
		left := f.left(r)
		if left <= keep+2*time.Millisecond {
			return left
		}
		require.True(f, f.Tokenless && time.Now().Before(end), "%s is kept for %v", r.Key, left)
	}
}

// keeping has the cases of locks that are kept. None of them needs more time than it has: a lock
// that must still be taken is kept for long, and a lock that must become free only for a short time.
var keeping = []testCase{
	{name: "H1_a_lock_stays_taken_after_its_release", run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			for name, keep := range map[string]time.Duration{"shorter": f.TTL / 2, "longer": 3 * f.TTL} {
				key := mode.String() + name
				l := f.acquire(f.any(mode, key))
				f.release(kept(l, keep))
				assert.Greater(f, f.leftOnceReleased(f.against(mode, key), keep), keep*3/4, key)
				assert.Equal(f, []outcome{lost}, f.renew(l), key)
			}
		}
	}},
	{name: "H1_a_repeated_release_leaves_a_kept_lock_as_it_is", run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			l := f.acquire(f.any(mode, mode.String()))
			f.release(kept(l, 2*f.TTL))
			assert.Greater(f, f.left(l.Request), f.TTL*3/2, "%v: a late Acquire of the former owner", mode)
			assert.Equal(f, []outcome{lost}, f.renew(l), mode)
			for _, again := range []driver.Lease{l, kept(l, f.TTL/4), kept(l, 20*f.TTL), {Request: l.Request, Unanswered: true}} {
				require.ErrorIs(f, f.store.Release(f.ctx, again), driver.ErrNotHeld, mode)
				left := f.left(f.against(mode, mode.String()))
				assert.LessOrEqual(f, left, 2*f.TTL+2*time.Millisecond, mode)
				assert.Greater(f, left, f.TTL*3/2, mode)
			}
			_, err := f.store.Acquire(f.ctx, l.Request)
			require.ErrorIs(f, err, driver.ErrNotAcquired, "%v: the former owner", mode)
		}
	}},
	{name: "H2_a_kept_lock_becomes_free", ends: true, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			l := f.acquire(f.lasting(f.any(mode, mode.String()), 100*f.TTL))
			f.release(kept(l, f.TTL/4))
			time.Sleep(f.longest(f.TTL/4) + f.TTL/20 + 2*time.Millisecond) // a store keeps it with the precision of its leases
			f.rises(l.Token, f.acquire(f.any(mode, mode.String())).Token)
		}
	}},
	{name: "a_lock_whose_time_has_passed_is_not_kept", run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			for range 2 {
				f.release(kept(f.acquire(f.any(mode, mode.String())), 0))
				f.release(kept(f.acquire(f.any(mode, mode.String())), -time.Hour))
			}
			f.acquire(f.any(mode, mode.String()))
		}
	}},
	{name: "H2_a_lock_that_is_not_held_is_not_kept", ends: true, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			l := f.acquire(f.any(mode, mode.String()))
			f.expire()
			require.ErrorIs(f, f.store.Release(f.ctx, kept(l, 100*f.TTL)), driver.ErrNotHeld, mode)
			other := f.acquire(f.any(mode, mode.String()))
			require.ErrorIs(f, f.store.Release(f.ctx, kept(l, 100*f.TTL)), driver.ErrNotHeld, mode)
			f.release(other)
			f.acquire(f.any(mode, mode.String()))
		}
	}},
	{name: "H1_locks_are_kept_in_bulk", needs: needsBulk, run: func(f *fixture) {
		var leases []driver.Lease
		for _, mode := range f.keptModes() {
			for _, key := range []string{"a", "b", "free"} {
				l := f.acquire(f.any(mode, mode.String()+key))
				if key != "free" {
					l = kept(l, 2*f.TTL)
				}
				leases = append(leases, l)
			}
		}
		for range 2 {
			for i, err := range f.releaseAll(f.ctx, leases...) {
				if err != nil {
					require.ErrorIs(f, err, driver.ErrNotHeld, leases[i])
				}
			}
			for _, mode := range f.keptModes() {
				assert.Greater(f, f.left(f.against(mode, mode.String()+"a")), f.TTL*3/2, mode)
				assert.Greater(f, f.left(f.against(mode, mode.String()+"b")), f.TTL*3/2, mode)
			}
		}
		for _, mode := range f.keptModes() {
			f.acquire(f.any(mode, mode.String()+"free"))
		}
	}},
	{name: "a_kept_lock_is_shown", needs: needsInspector, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			key := mode.String()
			r := f.any(mode, key)
			l := f.acquire(r)
			assert.Zero(f, f.inspect(key).FreeIn, mode)
			f.release(kept(l, 2*f.TTL))
			info := f.inspect(key)
			assert.LessOrEqual(f, info.FreeIn, 2*f.TTL+2*time.Millisecond, mode)
			assert.Greater(f, info.FreeIn, f.TTL*3/2, mode)
			info.FreeIn = 0
			assert.Equal(f, driver.Info{Token: l.Token}, info, mode)
		}
	}},
	{name: "ForceRelease_frees_a_kept_lock", needs: needsInspector, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			key := mode.String()
			l := f.acquire(f.any(mode, key))
			f.release(kept(l, 2*f.TTL))
			require.NoError(f, f.force(key), mode)
			require.ErrorIs(f, f.force(key), driver.ErrNotHeld, mode)
			f.rises(l.Token, f.acquire(f.any(mode, key)).Token)
		}
	}},
	{name: "H1_a_kept_lock_is_not_handed_over", needs: needsWaiting, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			key := mode.String()
			l := f.acquire(f.any(mode, key))
			first, second := f.waitFor(f.against(mode, key)), f.waitFor(f.against(mode, key))
			f.release(kept(l, 100*f.TTL))
			third := f.waitFor(f.against(mode, key)) // joins the queue of the kept lock
			f.pending(first)
			require.ErrorIs(f, first.cancelled(), errCancelled)
			first.release()
			f.pending(second)
			assert.Equal(f, 2, f.Waiting(f.T, f.store, l.Key), mode)
			require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld, mode)
			f.pending(second)
			f.pending(third)
		}
	}},
	// A lock that is kept for longer than a place lasts must not lose its queue.
	{name: "H2_waiters_get_a_kept_lock_in_order", ends: true, needs: needsWaiting, run: func(f *fixture) {
		for _, mode := range f.keptModes() {
			for name, keep := range map[string]time.Duration{"shorter": f.TTL / 4, "longer": 2 * f.TTL} {
				key := mode.String() + name
				l := f.acquire(f.any(mode, key))
				first, second := f.waitFor(f.against(mode, key)), f.waitFor(f.against(mode, key))
				l = kept(l, keep)
				until := l.Attrs.KeepUntil
				f.release(l)
				if f.can.Unordered != 0 {
					first, second = f.race(first, second)
				}
				next := first.get()
				assert.False(f, time.Now().Before(until), "%v: it is handed over too early", mode)
				f.rises(l.Token, next.Token)
				require.False(f, second.over(), mode)
				f.release(next)
				f.rises(next.Token, second.get().Token)
			}
		}
	}},
	{name: "H1_a_kept_batch_keeps_its_members_only", needs: needsKeptBatches, run: func(f *fixture) {
		l := f.acquire(f.batch("g", "a", "b"))
		other := f.acquire(f.batch("g", "c"))
		f.release(kept(l, 2*f.TTL))
		assert.Equal(f, []outcome{lost, renewed}, f.renew(l, other))
		for _, members := range [][]string{{"a"}, {"b", "d"}, {"a", "b", "e"}} {
			left := f.left(f.batch("g", members...))
			assert.LessOrEqual(f, left, 2*f.TTL+2*time.Millisecond, members)
			assert.Greater(f, left, f.TTL*3/2, members)
		}
		f.release(other, f.acquire(f.batch("g", "d", "e")))
		f.acquire(f.batch("g", "c"))
	}},
	{name: "a_kept_batch_is_not_shown_beside_a_holder", needs: both(needsKeptBatches, needsInspector), run: func(f *fixture) {
		l := f.acquire(f.batch("g", "a", "b"))
		other := f.acquire(f.batch("g", "c"))
		f.release(kept(l, 2*f.TTL))
		info := f.inspect("g")
		assert.Equal(f, 1, info.Held)
		require.Len(f, info.Holders, 1)
		assert.Equal(f, 1, info.Holders[0].Members)
		assert.Zero(f, info.FreeIn)
		f.release(other)
		assert.Positive(f, f.inspect("g").FreeIn)
	}},
	{name: "H1_waiters_for_other_members_are_served_beside_a_kept_batch", needs: both(needsKeptBatches, needsWaiting), run: func(f *fixture) {
		l := f.acquire(f.batch("g", "a", "b"))
		other := f.acquire(f.batch("g", "c"))
		blocked, free := f.waitFor(f.batch("g", "a")), f.waitFor(f.batch("g", "c"))
		f.release(kept(l, 100*f.TTL))
		f.release(other)
		free.get()
		f.pending(blocked)
	}},
	{name: "a_batch_with_MinHold", needs: needsKeptBatches, run: func(f *fixture) {
		c := f.newClient().With(lock.Terms{MinHold: 2 * f.TTL})
		require.NoError(f, f.lock(c.Batch(f.prefix+"g", "a", "b")).Unlock(f.ctx))
		_, err := c.Batch(f.prefix+"g", "b", "c").TryLock(f.ctx)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		require.NoError(f, f.lock(c.Batch(f.prefix+"g", "c")).Unlock(f.ctx))
		h, err := c.With(lock.Terms{MinHold: lock.NoMinHold}).Batch(f.prefix+"g", "d").TryLock(f.ctx)
		require.NoError(f, err)
		require.NoError(f, h.Unlock(f.ctx))
		f.acquire(f.batch("g", "d"))
	}},
	{name: "a_lock_with_MinHold", run: func(f *fixture) {
		c := f.newClient().With(lock.Terms{MinHold: 2 * f.TTL})
		require.NoError(f, f.lock(c.Mutex(f.prefix+"k")).Unlock(f.ctx))
		f.heldByOther("k")
		// A lock that the caller did not get is not kept.
		_, err := lock.Multi(c.Mutex(f.prefix+"a"), c.Mutex(f.prefix+"k")).TryLock(f.ctx)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		h, err := c.With(lock.Terms{MinHold: lock.NoMinHold}).Mutex(f.prefix + "a").TryLock(f.ctx)
		require.NoError(f, err)
		require.NoError(f, h.Unlock(f.ctx))
		f.acquire(f.request("a"))
	}},
}
