package locktest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// lasting returns a request with another TTL.
func lasting(r lock.Request, ttl time.Duration) lock.Request {
	r.TTL = ttl
	return r
}

// left returns how long what stands in the way of a request lasts, as the store says.
func (f *fixture) left(r lock.Request) time.Duration {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, r)
	var held *lock.HeldError
	require.ErrorAs(f, err, &held, r)
	return held.ExpiresIn
}

// lengths are rules of how long a lease, a place or a refusal lasts.
var lengths = []testCase{
	{name: "a_renewal_gives_each_lease_its_own_TTL", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			keys, ttls := []string{"a", "b", "c"}, []time.Duration{2 * f.TTL, 8 * f.TTL, 4 * f.TTL}
			var leases []lock.Lease
			for i, key := range keys {
				leases = append(leases, f.acquire(lasting(f.any(mode, mode.String()+key), ttls[i])))
			}
			assert.Equal(f, []outcome{renewed, renewed, renewed}, f.renew(leases...), mode)
			for i, key := range keys {
				left := f.left(f.against(mode, mode.String()+key))
				assert.LessOrEqual(f, left, ttls[i], "%v: lease %d of the batch", mode, i)
				assert.Greater(f, left, ttls[i]*3/4, "%v: lease %d of the batch", mode, i)
			}
		}
	}},
	{name: "a_TTL_is_of_milliseconds", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			ttl := f.TTL.Truncate(time.Second) + 1501*time.Millisecond
			start := time.Now()
			l := f.acquire(lasting(f.any(mode, mode.String()), ttl))
			for _, what := range []string{"acquired", "renewed"} {
				left := f.left(f.against(mode, mode.String()))
				assert.LessOrEqual(f, left, ttl, "%v, %s", mode, what)
				gone := time.Since(start) + 10*time.Millisecond // for clocks that are read in milliseconds
				assert.GreaterOrEqual(f, left, ttl-gone-gone/50, "%v, %s: it ends early", mode, what)
				assert.Equal(f, []outcome{renewed}, f.renew(l), mode)
			}
		}
	}},
	{name: "a_lease_as_long_as_there_may_be", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			l := f.acquire(lasting(f.any(mode, mode.String()), lock.MaxTTL))
			assert.Greater(f, f.left(f.against(mode, mode.String())), lock.MaxTTL-time.Hour, mode)
			assert.Equal(f, []outcome{renewed}, f.renew(l), mode)
			assert.Greater(f, f.left(f.against(mode, mode.String())), lock.MaxTTL-time.Hour, mode)
			f.release(l)
		}
	}},
	{name: "what_is_left_is_that_of_the_holder", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			f.acquire(f.any(mode, mode.String()))
			left := f.left(lasting(f.against(mode, mode.String()), 10*f.TTL))
			assert.LessOrEqual(f, left, f.TTL, "%v: not that of who asks", mode)
		}
	}},
	{name: "what_is_left_is_that_of_all_who_have_to_end", needs: needsModes(AllModes...), run: func(f *fixture) {
		short, long := f.TTL/2, f.TTL
		for _, ttl := range []time.Duration{long, short} {
			f.acquire(lasting(f.read("k"), ttl))
			f.acquire(lasting(f.permit("s", 2), ttl))
		}
		f.acquire(lasting(f.batch("g", "a"), short))
		f.acquire(lasting(f.batch("g", "b"), long))
		assert.Greater(f, f.left(f.write("k")), short, "a writer waits for the last reader")
		assert.LessOrEqual(f, f.left(f.permit("s", 2)), short, "one permit of two is enough")
		assert.Greater(f, f.left(f.permit("s", 1)), short, "both have to end")
		assert.LessOrEqual(f, f.left(f.batch("g", "a")), short, "the other is not in the way")
		assert.Greater(f, f.left(f.batch("g", "a", "b")), short, "a batch waits for all its members")
	}},
	{name: "L4_who_was_given_up_is_refused_for_longer_than_a_TTL", ends: true, run: func(f *fixture) {
		var requests []lock.Request
		for _, mode := range f.allModes() {
			r := f.any(mode, mode.String())
			requests = append(requests, r)
			require.ErrorIs(f, f.store.Release(f.ctx, lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
		}
		time.Sleep(min(f.TTL*5/4, 50*time.Second)) // it is for a minute at least
		for _, r := range requests {
			_, err := f.store.Acquire(f.ctx, r)
			require.ErrorIs(f, err, lock.ErrNotAcquired, r)
		}
	}},
	{name: "L3_a_waiter_keeps_its_place", ends: true, needs: needsWaiting, run: func(f *fixture) {
		holder := f.acquire(lasting(f.request("k"), 100*f.TTL))
		first := f.waitFor(lasting(f.request("k"), 2*f.TTL))
		time.Sleep(f.TTL * 5 / 2)
		second := f.waitFor(lasting(f.request("k"), 100*f.TTL))
		require.NoError(f, f.store.Release(f.ctx, holder))
		l := first.get()
		f.pending(second)
		assert.Less(f, time.Since(l.Sent), l.TTL, "and what it gets is worth something")
	}},
}
