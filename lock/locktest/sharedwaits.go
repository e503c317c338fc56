package locktest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// pending expects that calls of Wait have not got what they wait for.
func (f *fixture) pending(calls ...*waitCall) {
	f.Helper()
	for _, c := range calls {
		require.False(f, c.over(), "%v is kept waiting", c.request)
	}
}

// getAll expects that the locks are handed over, in whatever order.
func getAll(calls ...*waitCall) []lock.Lease {
	var leases []lock.Lease
	for _, c := range calls {
		leases = append(leases, c.get())
	}
	return leases
}

// perModeWaiting are the rules of waiting that are the same in all modes.
var perModeWaiting = []perModeCase{
	{name: "a_free_lock_is_not_waited_for", run: func(f *fixture, mode lock.Mode) {
		r := f.any(mode, "k")
		start := time.Now()
		l, err := f.waiter().Wait(f.ctx, r)
		require.NoError(f, err)
		assert.NotZero(f, l.Token)
		assert.False(f, l.Unanswered)
		assert.False(f, l.Sent.Before(start), "it has its full TTL")
		l = complete(l, r)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		f.release(l)
	}},
	{name: "a_released_lock_is_handed_over", run: func(f *fixture, mode lock.Mode) {
		holder := f.acquire(f.against(mode, "k"))
		c := f.waitFor(f.any(mode, "k"))
		f.refused(f.any(mode, "k")) // which would overtake it
		f.pending(c)
		f.release(holder)
		l := c.get()
		assert.Greater(f, l.Token, holder.Token, "S3")
		assert.Less(f, time.Since(l.Sent), f.TTL, "it is worth something")
		assert.Equal(f, []outcome{renewed, lost}, f.renew(l, holder))
		f.refused(f.against(mode, "k"))
		f.release(l)
		f.acquire(f.against(mode, "k"))
	}},
	{name: "L4_a_waiter_that_is_cancelled_leaves", run: func(f *fixture, mode lock.Mode) {
		holder := f.acquire(f.against(mode, "k"))
		first, second := f.waitFor(f.against(mode, "k")), f.waitFor(f.any(mode, "k"))
		require.ErrorIs(f, first.cancelled(), errCancelled)
		first.release()
		require.Equal(f, 1, f.Waiting(f.T, f.store, holder.Key))
		f.release(holder)
		f.release(second.get())
		f.acquire(f.against(mode, "k"))
	}},
	{name: "L4_a_wait_that_was_given_up_takes_nothing_later", run: func(f *fixture, mode lock.Mode) {
		r := f.any(mode, "k")
		require.ErrorIs(f, f.store.Release(f.ctx, lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
		_, err := f.waiter().Wait(f.ctx, r)
		require.ErrorIs(f, err, lock.ErrNotAcquired)
		f.acquire(f.against(mode, "k"))
	}},
	{name: "another_kind_of_lock_is_not_waited_for", run: func(f *fixture, mode lock.Mode) {
		other := f.acquire(f.request("k"))
		_, err := f.waiter().Wait(f.ctx, f.any(mode, "k"))
		require.ErrorIs(f, err, lock.ErrWrongType)
		f.release(other)
		f.acquire(f.any(mode, "k"))
		_, err = f.waiter().Wait(f.ctx, f.request("k"))
		require.ErrorIs(f, err, lock.ErrWrongType)
	}},
}

// inAllWaiting are those that wait for leases to end: for those of all modes at a
// time.
var inAllWaiting = []testCase{
	{name: "L3_a_deleted_lock_is_found_by_those_who_wait_in_all_modes", ends: true, needs: needsDelete, run: func(f *fixture) {
		holders := f.againstAll()
		calls := f.waitForAll()
		for _, l := range holders {
			f.Delete(f.T, f.store, l.Key)
		}
		getAll(calls...)
	}},
	{name: "L2_a_dead_holder_is_followed_by_the_next_in_all_modes", ends: true, run: func(f *fixture) {
		start := time.Now()
		f.againstAll()
		for _, c := range f.waitForAll() {
			l := c.get()
			assert.GreaterOrEqual(f, time.Since(start), f.TTL*8/10, "%v: not before its TTL has passed", l.Mode)
			assert.Equal(f, []outcome{renewed}, f.renew(l), l.Mode)
		}
	}},
	{name: "L3_dead_waiters_are_passed_over_in_all_modes", ends: true, needs: needsDie, run: func(f *fixture) {
		holders := f.againstAll()
		for _, mode := range f.Modes {
			for range 3 {
				f.Die(f.T, f.store, f.against(mode, mode.String()))
			}
		}
		calls := f.waitForAll()
		for _, l := range holders {
			_ = f.store.Release(f.ctx, l) // on a busy machine it may have ended
		}
		start := time.Now()
		getAll(calls...)
		assert.Less(f, time.Since(start), 3*f.TTL, "however many died together, they cost one TTL")
	}},
	{name: "S1_what_was_handed_over_lasts_as_long_as_it_says_in_all_modes", ends: true, run: func(f *fixture) {
		holders := f.againstAll()
		calls := f.waitForAll()
		for _, l := range holders {
			_ = f.store.Release(f.ctx, l)
		}
		next := make(map[lock.Mode]*waitCall)
		leases := getAll(calls...)
		for _, l := range leases {
			next[l.Mode] = f.waitFor(f.against(l.Mode, l.Mode.String()))
		}
		for _, l := range leases {
			for end := l.Sent.Add(f.TTL - f.TTL/50); time.Now().Before(end); time.Sleep(f.TTL / 50) {
				over := next[l.Mode].over()
				if time.Now().Before(end) {
					require.False(f, over, "%v: another has it", l.Mode)
				}
			}
		}
		for _, c := range next {
			c.get()
		}
	}},
}

// againstAll gets a lock of each mode that the store knows, each of another key, that
// excludes those that waitForAll waits for.
func (f *fixture) againstAll() []lock.Lease {
	f.Helper()
	var leases []lock.Lease
	for _, mode := range f.Modes {
		leases = append(leases, f.acquire(f.against(mode, mode.String())))
	}
	return leases
}

func (f *fixture) waitForAll() []*waitCall {
	f.Helper()
	var calls []*waitCall
	for _, mode := range f.Modes {
		calls = append(calls, f.waitFor(f.any(mode, mode.String())))
	}
	return calls
}

// against returns a request that excludes those that any returns.
func (f *fixture) against(mode lock.Mode, key string) lock.Request {
	if mode == lock.Read {
		return f.write(key)
	}
	return f.any(mode, key)
}

// queueing are rules of the order in which those that wait are served. Their leases
// last while the machine is busy.
var queueing = []testCase{
	{name: "readers_are_served_in_one_go_up_to_the_next_writer", needs: needsModes(lock.Read, lock.Write), run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		r1, r2 := f.waitFor(f.read("k")), f.waitFor(f.read("k"))
		next, r3 := f.waitFor(f.write("k")), f.waitFor(f.read("k"))
		f.release(w)
		readers := getAll(r1, r2)
		assert.Less(f, readers[0].Token, readers[1].Token, "in order")
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
	{name: "a_reader_does_not_overtake_a_writer_that_waits", needs: needsModes(lock.Read, lock.Write), run: func(f *fixture) {
		first := f.acquire(f.read("k"))
		w := f.waitFor(f.write("k"))
		f.refused(f.read("k"))
		late := f.waitFor(f.read("k"))
		f.pending(late)
		require.ErrorIs(f, w.cancelled(), errCancelled)
		w.release()
		late.get() // as soon as no writer waits any more
		assert.Equal(f, []outcome{renewed}, f.renew(first))
	}},
	{name: "a_writer_that_becomes_a_reader_lets_in_those_who_wait", needs: needsModes(lock.Read, lock.Write), run: func(f *fixture) {
		w := f.acquire(f.write("k"))
		r1, r2, next, r3 := f.waitFor(f.read("k")), f.waitFor(f.read("k")), f.waitFor(f.write("k")), f.waitFor(f.read("k"))
		turned := w.Request
		turned.Mode = lock.Read
		start := time.Now()
		l := f.acquire(turned)
		assert.Equal(f, w.Token, l.Token)
		f.release(getAll(r1, r2)...)
		assert.Less(f, time.Since(start), f.TTL/2, "and not when some lease has ended")
		f.pending(next, r3)
		f.release(l)
		f.release(next.get())
		f.release(r3.get())
	}},
	{name: "permits_are_handed_over_in_order", needs: needsModes(lock.Permit), run: func(f *fixture) {
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
	{name: "who_waits_for_a_lower_limit_is_not_overtaken", needs: needsModes(lock.Permit), run: func(f *fixture) {
		a, b := f.acquire(f.permit("k", 2)), f.acquire(f.permit("k", 2))
		low, high := f.waitFor(f.permit("k", 1)), f.waitFor(f.permit("k", 3))
		f.pending(low, high)
		f.release(a)
		f.pending(low, high)
		assert.Zero(f, f.refused(f.permit("k", 2)).ExpiresIn, "only those who wait are in the way")
		f.release(b)
		l := low.get()
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(l, high.get()))
	}},
	{name: "batches_are_kept_waiting_by_those_before_them_with_the_same_members", needs: needsModes(lock.Members), run: func(f *fixture) {
		a, b := f.acquire(f.batch("g", "a")), f.acquire(f.batch("g", "b"))
		ab, bc := f.waitFor(f.batch("g", "a", "b")), f.waitFor(f.batch("g", "b", "c"))
		f.refused(f.batch("g", "c")) // it is wanted
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
	{name: "a_batch_overtakes_those_who_want_others", needs: needsModes(lock.Members), run: func(f *fixture) {
		a, b := f.acquire(f.batch("g", "a")), f.acquire(f.batch("g", "b"))
		first, second := f.waitFor(f.batch("g", "a")), f.waitFor(f.batch("g", "b"))
		f.release(b)
		f.release(second.get())
		f.pending(first)
		f.release(a)
		first.get()
	}},
	{name: "a_batch_that_gives_up_lets_in_those_behind_it", needs: needsModes(lock.Members), run: func(f *fixture) {
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
}

var dying = []testCase{
	{name: "L2_what_dead_holders_had_is_handed_over", ends: true, needs: needsModes(lock.Permit, lock.Members), run: func(f *fixture) {
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
	{name: "L3_a_dead_batch_keeps_those_behind_it_for_a_TTL_at_most", ends: true, needs: both(needsModes(lock.Members), needsDie), run: func(f *fixture) {
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

// waitForNothing calls Wait for what is free.
func (f *fixture) waitForNothing(r lock.Request) lock.Lease {
	f.Helper()
	l, err := f.waiter().Wait(f.ctx, r)
	require.NoError(f, err)
	return complete(l, r)
}
