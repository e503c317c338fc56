// Cases of Wait in all modes.

package locktest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// pending expects that calls of Wait have not returned.
func (f *fixture) pending(calls ...*waitCall) {
	f.Helper()
	for _, c := range calls {
		require.False(f, c.over(), "%v must still wait", c.request)
	}
}

// getAll expects that the locks are handed over, in any order.
func getAll(calls ...*waitCall) []driver.Lease {
	var leases []driver.Lease
	for _, c := range calls {
		leases = append(leases, c.get())
	}
	return leases
}

// perModeWaiting has cases of waiting that are the same in all modes.
var perModeWaiting = []perModeCase{
	{name: "a_free_lock_is_not_waited_for", run: func(f *fixture, mode driver.Mode) {
		r := f.any(mode, "k")
		start := time.Now()
		l, err := f.store.Wait(f.ctx, r, func() {})
		require.NoError(f, err)
		assert.Equal(f, f.Tokenless, l.Token == 0)
		assert.False(f, l.Unanswered)
		f.fresh(l, start)
		l = complete(l, r)
		f.refused(f.against(mode, "k"))
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		f.release(l)
		f.acquire(f.any(mode, "k"))
	}},
	{name: "a_released_lock_is_handed_over", run: func(f *fixture, mode driver.Mode) {
		holder := f.acquire(f.against(mode, "k"))
		c := f.waitFor(f.any(mode, "k"))
		f.refused(f.any(mode, "k")) // otherwise it would overtake the waiter
		f.pending(c)
		f.release(holder)
		l := c.get()
		f.rises(holder.Token, l.Token) // S3
		assert.Less(f, time.Since(l.Sent), f.TTL, "the lease has time left")
		assert.Equal(f, []outcome{renewed, lost}, f.renew(l, holder))
		f.refused(f.against(mode, "k"))
		f.release(l)
		f.acquire(f.against(mode, "k"))
	}},
	{name: "L4_a_waiter_that_is_cancelled_leaves", run: func(f *fixture, mode driver.Mode) {
		holder := f.acquire(f.against(mode, "k"))
		first, second := f.waitFor(f.against(mode, "k")), f.waitFor(f.any(mode, "k"))
		start := time.Now()
		require.ErrorIs(f, first.cancelled(), errCancelled)
		assert.Less(f, time.Since(start), f.TTL, "a cancelled Wait returns at once")
		first.release()
		require.Equal(f, 1, f.Waiting(f.T, f.store, holder.Key))
		f.release(holder)
		f.release(second.get())
		f.acquire(f.against(mode, "k"))
	}},
	{name: "L4_a_late_wait_of_a_released_owner_fails", run: func(f *fixture, mode driver.Mode) {
		r := f.any(mode, "k")
		require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		_, err := f.store.Wait(f.ctx, r, func() {})
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		f.acquire(f.against(mode, "k"))
	}},
	{name: "another_kind_of_lock_is_not_waited_for", run: func(f *fixture, mode driver.Mode) {
		if mode == driver.Exclusive {
			return // the cases of the other modes wait for it, and it for them
		}
		other := f.acquire(f.request("k"))
		_, err := f.store.Wait(f.ctx, f.any(mode, "k"), func() {})
		require.ErrorIs(f, err, driver.ErrWrongType)
		f.release(other)
		f.acquire(f.any(mode, "k"))
		_, err = f.store.Wait(f.ctx, f.request("k"), func() {})
		require.ErrorIs(f, err, driver.ErrWrongType)
	}},
}

// allModesWaiting has cases for all modes together that wait for leases to end.
var allModesWaiting = []testCase{
	{name: "L3_waiters_notice_a_deleted_lock", ends: true, needs: needsDelete, run: func(f *fixture) {
		holders := f.againstAll(f.TTL)
		calls := f.waitForAll()
		for _, l := range holders {
			f.Delete(f.T, f.store, l.Key)
		}
		getAll(calls...)
	}},
	{name: "L2_a_dead_holder_is_followed_by_the_next", ends: true, run: func(f *fixture) {
		holders := f.againstAll(f.TTL)
		cancelled, calls := f.waitForAll(), f.waitForAll()
		for _, c := range cancelled {
			require.ErrorIs(f, c.cancelled(), errCancelled)
			c.release()
		}
		for i, c := range calls {
			l := c.get()
			assert.GreaterOrEqual(f, time.Since(holders[i].Sent), f.TTL-f.TTL/50, "%v: not before the holder's TTL has passed", l.Mode)
			assert.Equal(f, []outcome{renewed}, f.renew(l), l.Mode)
		}
	}},
	{name: "L3_dead_waiters_are_skipped", ends: true, needs: needsDie, run: func(f *fixture) {
		ttl := f.TTL * longTTL
		if f.limits.Max > 0 {
			ttl = min(ttl, f.limits.Max)
		}
		holders := f.againstAll(ttl)
		for _, mode := range f.allModes() {
			for range 5 {
				f.Die(f.T, f.store, f.against(mode, mode.String()))
			}
		}
		calls := f.waitForAll()
		f.release(holders...)
		start := time.Now()
		getAll(calls...)
		assert.Less(f, time.Since(start), 3*f.longest(f.TTL), "waiters that died together delay the queue by one TTL")
	}},
	{name: "S1_a_lock_that_was_handed_over_lasts_its_TTL", ends: true, run: func(f *fixture) {
		holders := f.againstAll(f.TTL)
		calls := f.waitForAll()
		time.Sleep(f.TTL / 5)
		for _, l := range holders {
			_ = f.store.Release(f.ctx, l) // on a busy machine the lease may have ended
		}
		leases := getAll(calls...)
		next := make([]*waitCall, len(leases))
		for i, l := range leases {
			assert.Less(f, time.Since(l.Sent), f.TTL, "%v: the lease has time left", l.Mode)
			next[i] = f.waitFor(f.against(l.Mode, l.Mode.String()))
		}
		for left := true; left; time.Sleep(f.TTL / 50) {
			left = false
			for i, l := range leases {
				end := l.Sent.Add(f.TTL - f.TTL/50)
				if over := next[i].over(); time.Now().Before(end) {
					left = true
					require.False(f, over, "%v: another waiter got the lock too early", l.Mode)
				}
			}
		}
		getAll(next...)
	}},
}

// againstAll acquires a lock in each supported mode, each with its own key, that excludes
// the requests of waitForAll.
func (f *fixture) againstAll(ttl time.Duration) []driver.Lease {
	f.Helper()
	var leases []driver.Lease
	for _, mode := range f.allModes() {
		r := f.against(mode, mode.String())
		r.TTL = ttl
		leases = append(leases, f.acquire(r))
	}
	return leases
}

func (f *fixture) waitForAll() []*waitCall {
	f.Helper()
	var calls []*waitCall
	for _, mode := range f.allModes() {
		calls = append(calls, f.waitFor(f.any(mode, mode.String())))
	}
	return calls
}

// against returns a request that excludes the requests of any.
func (f *fixture) against(mode driver.Mode, key string) driver.Request {
	if mode == driver.Read {
		return f.write(key)
	}
	return f.any(mode, key)
}

// queueing has cases about the order of the queue. Their leases outlast a busy machine.
var queueing = []testCase{
	{name: "readers_are_served_together_up_to_the_next_writer", needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		r1, r2 := f.waitFor(f.read("k")), f.waitFor(f.read("k"))
		next, r3 := f.waitFor(f.write("k")), f.waitFor(f.read("k"))
		f.release(w)
		readers := getAll(r1, r2)
		assert.Less(f, readers[0].Token, readers[1].Token, "tokens follow the order of the queue")
		f.pending(next, r3)
		f.refused(f.read("k"))
		f.release(readers[0])
		f.pending(next, r3)
		f.release(readers[1])
		l := next.get()
		f.pending(r3)
		f.release(l)
		f.release(r3.get())
		f.acquire(f.write("k"))
	}},
	{name: "a_reader_does_not_overtake_a_writer_that_waits", needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		first := f.acquire(f.read("k"))
		w := f.waitFor(f.write("k"))
		f.refused(f.read("k"))
		late := f.waitFor(f.read("k"))
		f.pending(late)
		require.ErrorIs(f, w.cancelled(), errCancelled)
		w.release()
		late.get() // once no writer waits
		assert.Equal(f, []outcome{renewed}, f.renew(first))
	}},
	{name: "a_downgrade_lets_in_waiting_readers", needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		r1, r2, next, r3 := f.waitFor(f.read("k")), f.waitFor(f.read("k")), f.waitFor(f.write("k")), f.waitFor(f.read("k"))
		turned := w.Request
		turned.Mode = driver.Read
		start := time.Now()
		l := f.acquire(turned)
		assert.Equal(f, w.Token, l.Token)
		f.release(getAll(r1, r2)...)
		assert.Less(f, time.Since(start), f.TTL/2, "at once, not when a lease ends")
		f.pending(next, r3)
		f.release(l)
		f.release(next.get())
		f.release(r3.get())
	}},
	{name: "permits_are_handed_over_in_order", needs: needsModes(driver.Permit), run: func(f *fixture) {
		a, b := f.acquire(f.permit("k", 2)), f.acquire(f.permit("k", 2))
		var calls []*waitCall
		for range 4 {
			calls = append(calls, f.waitFor(f.permit("k", 2)))
		}
		f.release(a)
		first := calls[0].get()
		f.pending(calls[1:]...)
		f.refused(f.permit("k", 2))
		f.release(first)
		second := calls[1].get()
		f.pending(calls[2:]...)
		f.release(b, second)
		f.release(getAll(calls[2:]...)...)
	}},
	{name: "a_waiter_with_a_lower_limit_is_not_overtaken", needs: needsModes(driver.Permit), run: func(f *fixture) {
		a, b := f.acquire(f.permit("k", 2)), f.acquire(f.permit("k", 2))
		low, high := f.waitFor(f.permit("k", 1)), f.waitFor(f.permit("k", 3))
		f.pending(low, high)
		f.release(a)
		f.pending(low, high)
		assert.Zero(f, f.refused(f.permit("k", 2)).ExpiresIn, "only waiters block the request")
		f.release(b)
		l := low.get()
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(l, high.get()))
	}},
	{name: "a_waiter_for_several_permits_is_not_overtaken", needs: needsModes(driver.Permit), run: func(f *fixture) {
		a, b := f.acquire(f.permit("k", 3)), f.acquire(f.permit("k", 3))
		many, one := f.waitFor(f.permits("k", 3, 3)), f.waitFor(f.permit("k", 3))
		f.pending(many, one)
		assert.Zero(f, f.refused(f.permit("k", 3)).ExpiresIn, "only waiters block the request")
		f.release(a)
		f.pending(many, one)
		f.release(b)
		l := many.get()
		f.pending(one)
		f.release(l)
		f.release(one.get())
		f.acquire(f.permits("k", 3, 3))
	}},
	{name: "several_permits_serve_several_waiters", needs: needsModes(driver.Permit), run: func(f *fixture) {
		all := f.acquire(f.permits("k", 4, 4))
		two, one, three := f.waitFor(f.permits("k", 4, 2)), f.waitFor(f.permit("k", 4)), f.waitFor(f.permits("k", 4, 3))
		f.pending(two, one, three)
		f.release(all)
		l := two.get()
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(l, one.get()))
		f.pending(three)
		f.release(l)
		f.release(three.get())
	}},
	{name: "batches_wait_for_earlier_waiters_with_the_same_members", needs: needsModes(driver.Members), run: func(f *fixture) {
		a, b := f.acquire(f.batch("g", "a")), f.acquire(f.batch("g", "b"))
		ab, bc := f.waitFor(f.batch("g", "a", "b")), f.waitFor(f.batch("g", "b", "c"))
		f.refused(f.batch("g", "c")) // a waiter needs the member
		d := f.acquire(f.batch("g", "d"))
		e := f.waitForNothing(f.batch("g", "e"))
		f.release(b)
		f.pending(ab, bc)
		f.release(d, e)
		f.pending(ab, bc)
		f.release(a)
		l := ab.get()
		f.pending(bc)
		f.release(l)
		f.release(bc.get())
		f.acquire(f.batch("g", "a", "b", "c", "d", "e"))
	}},
	{name: "a_batch_overtakes_waiters_for_other_members", needs: needsModes(driver.Members), run: func(f *fixture) {
		a, b := f.acquire(f.batch("g", "a")), f.acquire(f.batch("g", "b"))
		first, second := f.waitFor(f.batch("g", "a")), f.waitFor(f.batch("g", "b"))
		f.release(b)
		f.release(second.get())
		f.pending(first)
		f.release(a)
		first.get()
	}},
	{name: "a_cancelled_batch_lets_in_later_waiters", needs: needsModes(driver.Members), run: func(f *fixture) {
		f.acquire(f.batch("g", "a"))
		a := f.waitFor(f.batch("g", "a"))
		ab, b := f.waitFor(f.batch("g", "a", "b")), f.waitFor(f.batch("g", "b"))
		f.pending(b)
		require.ErrorIs(f, ab.cancelled(), errCancelled)
		ab.release()
		b.get()
		f.pending(a)
		f.acquire(f.batch("g", "c"))
	}},
	{name: "L0_waiters_for_a_large_batch_do_not_block_others", ends: true, needs: needsModes(driver.Members), run: func(f *fixture) {
		members := make([]string, 1000)
		for i := range members {
			members[i] = fmt.Sprintf("member %03d", i)
		}
		holders := []driver.Lease{f.acquire(f.batch("g", members...)), f.acquire(f.batch("g", "other")), f.acquire(f.request("k"))}
		var calls []*waitCall
		for range 12 {
			calls = append(calls, f.waitFor(f.batch("g", members...)))
		}
		for range 6 {
			time.Sleep(f.TTL / 4)
			require.Equal(f, []outcome{renewed, renewed, renewed}, f.renew(holders...))
			f.release(f.acquire(f.request("another key")), f.acquire(f.batch("g", "another member")))
		}
		f.release(holders[1:]...)
		f.pending(calls...)
		for _, c := range calls[1 : len(calls)-1] {
			require.ErrorIs(f, c.cancelled(), errCancelled)
			c.release()
		}
		f.release(holders[0])
		first, last := calls[0], calls[len(calls)-1]
		l := first.get()
		f.pending(last)
		f.release(l)
		f.release(last.get())
		f.acquire(f.batch("g", members...))
	}},
}

var dying = []testCase{
	{name: "L2_leases_of_dead_holders_are_handed_over", ends: true, needs: needsModes(driver.Permit, driver.Members), run: func(f *fixture) {
		f.acquire(f.permit("s", 2))
		f.acquire(f.permit("s", 2))
		f.acquire(f.batch("g", "a", "b"))
		f.acquire(f.batch("g", "c"))
		permits := []*waitCall{f.waitFor(f.permit("s", 2)), f.waitFor(f.permit("s", 2)), f.waitFor(f.permit("s", 2))}
		batches := []*waitCall{f.waitFor(f.batch("g", "a")), f.waitFor(f.batch("g", "b", "c")), f.waitFor(f.batch("g", "c"))}
		leases := getAll(permits[0], permits[1], batches[0], batches[1])
		f.pending(permits[2], batches[2])
		assert.Equal(f, []outcome{renewed, renewed, renewed, renewed}, f.renew(leases...))
		f.release(leases[0], leases[3])
		getAll(permits[2], batches[2])
	}},
	{name: "L3_a_dead_batch_blocks_others_for_at_most_a_TTL", ends: true, needs: both(needsModes(driver.Members), needsDie), run: func(f *fixture) {
		holder := f.acquire(f.batch("g", "a"))
		f.Die(f.T, f.store, f.batch("g", "a", "b"))
		b := f.waitFor(f.batch("g", "b"))
		for range 4 {
			time.Sleep(f.TTL / 4)
			require.Equal(f, []outcome{renewed}, f.renew(holder))
		}
		b.get()
	}},
}

// waitForNothing calls Wait for a free lock.
func (f *fixture) waitForNothing(r driver.Request) driver.Lease {
	f.Helper()
	l, err := f.store.Wait(f.ctx, r, func() {})
	require.NoError(f, err)
	return complete(l, r)
}
