// Cases of the duration of leases, places and tombstones.

package locktest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// lasting returns the request with another TTL. It skips the case if the store refuses that TTL.
func (f *fixture) lasting(r driver.Request, ttl time.Duration) driver.Request {
	f.Helper()
	r.TTL = f.accepted(ttl)
	return r
}

// accepted returns the TTL, and skips the case if the store refuses it.
func (f *fixture) accepted(ttl time.Duration) time.Duration {
	f.Helper()
	if err := f.limits.Check(ttl); err != nil {
		f.Skipf("skipped: the case needs another TTL (driver.TTLLimits): %v", err)
	}
	return ttl
}

// longest returns how long a lease with this TTL may last after its last renewal.
func (f *fixture) longest(ttl time.Duration) time.Duration { return f.limits.Longest(ttl) }

// keep renews leases if the last keep was a while ago. A case that acquires many leases calls it
// after each, because a slow store may need longer than a TTL for all of them.
func (f *fixture) keep(leases []driver.Lease) {
	if time.Since(f.kept) < f.TTL/4 {
		return
	}
	for some := range slices.Chunk(leases, 500) {
		f.renew(some...)
	}
	f.kept = time.Now()
}

// left returns the remaining time of the leases that block a request, as the store
// reports it.
func (f *fixture) left(r driver.Request) time.Duration {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, r)
	var held *driver.HeldError
	require.ErrorAs(f, err, &held, r)
	return held.ExpiresIn
}

// shortens checks that a renewal shortly before the end of a lease gives it its new, shorter TTL. It
// returns false if a request took so long that the lease may have ended.
func (f *fixture) shortens(mode driver.Mode, key string) bool {
	f.Helper()
	long := f.acquire(f.lasting(f.any(mode, key), f.TTL/2))
	short := long
	short.TTL = f.accepted(f.TTL / 4)
	time.Sleep(f.TTL * 3 / 8)
	asked := time.Now()
	outcomes := f.renew(short)
	if outcomes[0] != renewed && time.Since(long.Sent) >= long.TTL {
		return false
	}
	assert.Equal(f, []outcome{renewed}, outcomes, mode)
	_, err := f.store.Acquire(f.ctx, f.against(mode, key))
	if err == nil && time.Since(asked) >= short.TTL {
		return false
	}
	var held *driver.HeldError
	require.ErrorAs(f, err, &held, mode)
	assert.LessOrEqual(f, held.ExpiresIn, f.longest(f.TTL/4), "%v: the lease has its new TTL", mode)
	f.release(short)
	return true
}

// lengths has cases about the duration of leases, places and tombstones.
var lengths = []testCase{
	{name: "a_renewal_gives_each_lease_its_own_TTL", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			keys, ttls := []string{"a", "b", "c"}, []time.Duration{2 * f.TTL, 8 * f.TTL, 4 * f.TTL}
			var leases []driver.Lease
			for i, key := range keys {
				leases = append(leases, f.acquire(f.lasting(f.any(mode, mode.String()+key), ttls[i])))
			}
			assert.Equal(f, []outcome{renewed, renewed, renewed}, f.renew(leases...), mode)
			for i, key := range keys {
				left := f.left(f.against(mode, mode.String()+key))
				assert.LessOrEqual(f, left, f.longest(ttls[i]), "%v: lease %d of the batch", mode, i)
				assert.Greater(f, left, ttls[i]*3/4, "%v: lease %d of the batch", mode, i)
			}
		}
	}},
	{name: "a_renewal_may_have_another_TTL", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			first := f.any(mode, mode.String())
			short := f.acquire(first)
			long := short
			long.TTL = f.accepted(4 * f.TTL)
			left := func() time.Duration { return f.left(f.against(mode, mode.String())) }
			assert.Equal(f, []outcome{renewed}, f.renew(long), mode)
			assert.Greater(f, left(), 3*f.TTL, mode)
			assert.LessOrEqual(f, left(), f.longest(4*f.TTL), mode)
			assert.Equal(f, []outcome{renewed}, f.renew(short), mode)
			assert.Greater(f, left(), 3*f.TTL, "%v: a renewal with a shorter TTL does not shorten the lease", mode)
			again := f.acquire(first)
			assert.Equal(f, short.Token, again.Token, mode)
			assert.Greater(f, left(), 3*f.TTL, "%v: a repeated Acquire does not shorten the lease", mode)
			f.release(long)
		}
	}},
	{name: "S10_a_late_renewal_does_not_shorten_a_lease", ends: true, run: func(f *fixture) {
		for _, mode := range f.allModes() {
			short := f.acquire(f.any(mode, mode.String()))
			long := short
			long.TTL = f.accepted(f.longest(f.TTL) + 2*f.TTL)
			assert.Equal(f, []outcome{renewed, renewed}, f.renew(long, short), mode)
		}
		f.expire()
		for _, mode := range f.allModes() {
			assert.Positive(f, f.left(f.against(mode, mode.String())), "%v: the lease still has time left", mode)
		}
	}},
	{name: "L2_a_shorter_TTL_counts_from_the_next_renewal", ends: true, run: func(f *fixture) {
		for _, mode := range f.allModes() {
			long := f.acquire(f.lasting(f.any(mode, mode.String()), f.TTL*3/2))
			short := long
			short.TTL = f.TTL
			time.Sleep(f.TTL / 10)
			assert.Equal(f, []outcome{renewed}, f.renew(short), mode)
			left := f.left(f.against(mode, mode.String()))
			assert.Greater(f, left, time.Until(long.Sent.Add(long.TTL-f.TTL/20)), "%v: the lease keeps what it has", mode)
			f.release(short)

			for tries := 1; !f.shortens(mode, fmt.Sprint(mode, tries)); tries++ {
				require.Less(f, tries, 10, "the machine is too busy for leases of %v", f.TTL/4)
			}
		}
	}},
	{name: "a_TTL_is_of_milliseconds", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			ttl := f.TTL.Truncate(time.Second) + 1501*time.Millisecond
			if f.limits.Check(ttl) != nil { // above the maximum
				ttl -= 2 * time.Second
			}
			start := time.Now()
			l := f.acquire(f.lasting(f.any(mode, mode.String()), ttl))
			for _, what := range []string{"acquired", "renewed"} {
				left := f.left(f.against(mode, mode.String()))
				assert.LessOrEqual(f, left, f.longest(ttl), "%v, %s", mode, what)
				gone := time.Since(start) + 10*time.Millisecond // allows for clocks with a resolution of milliseconds
				assert.GreaterOrEqual(f, left, ttl-gone-gone/50, "%v, %s: the lease ends too early", mode, what)
				assert.Equal(f, []outcome{renewed}, f.renew(l), mode)
			}
		}
	}},
	{name: "a_lease_as_long_as_there_may_be", run: func(f *fixture) {
		most := cmp.Or(f.limits.Max, driver.MaxTTL)
		atLeast := most - min(time.Hour, most/4)
		for _, mode := range f.allModes() {
			l := f.acquire(f.lasting(f.any(mode, mode.String()), most))
			assert.Greater(f, f.left(f.against(mode, mode.String())), atLeast, mode)
			assert.Equal(f, []outcome{renewed}, f.renew(l), mode)
			assert.Greater(f, f.left(f.against(mode, mode.String())), atLeast, mode)
			f.release(l)
		}
	}},
	{name: "ExpiresIn_is_that_of_the_holder", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			f.acquire(f.any(mode, mode.String()))
			left := f.left(f.lasting(f.against(mode, mode.String()), 10*f.TTL))
			assert.LessOrEqual(f, left, f.longest(f.TTL), "%v: ExpiresIn is that of the holder, not of the request", mode)
		}
	}},
	{name: "ExpiresIn_covers_all_blocking_leases", needs: needsModes(AllModes...), run: func(f *fixture) {
		short, long := f.TTL/2, f.TTL
		for _, ttl := range []time.Duration{long, short} {
			f.acquire(f.lasting(f.read("k"), ttl))
			f.acquire(f.lasting(f.permit("s", 2), ttl))
		}
		f.acquire(f.lasting(f.batch("g", "a"), short))
		f.acquire(f.lasting(f.batch("g", "b"), long))
		assert.Greater(f, f.left(f.write("k")), short, "a writer waits for the last reader")
		assert.LessOrEqual(f, f.left(f.permit("s", 2)), f.longest(short), "one permit of two is enough")
		assert.Greater(f, f.left(f.permit("s", 1)), short, "both leases must end")
		assert.LessOrEqual(f, f.left(f.batch("g", "a")), f.longest(short), "the other batch does not block it")
		assert.Greater(f, f.left(f.batch("g", "a", "b")), short, "a batch waits for all its members")
	}},
	{name: "L4_a_tombstone_outlasts_a_TTL", ends: true, run: func(f *fixture) {
		var requests []driver.Request
		for _, mode := range f.allModes() {
			r := f.any(mode, mode.String())
			requests = append(requests, r)
			require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		}
		time.Sleep(min(f.TTL*5/4, 50*time.Second)) // a tombstone lasts at least a minute
		for _, r := range requests {
			_, err := f.store.Acquire(f.ctx, r)
			require.ErrorIs(f, err, driver.ErrNotAcquired, r)
		}
	}},
	{name: "L3_a_waiter_keeps_its_place", ends: true, needs: needsOrder, run: func(f *fixture) {
		holder := f.acquire(f.lasting(f.request("k"), 100*f.TTL))
		first := f.waitFor(f.lasting(f.request("k"), 2*f.TTL))
		time.Sleep(f.TTL * 5 / 2)
		second := f.waitFor(f.lasting(f.request("k"), 100*f.TTL))
		require.NoError(f, f.store.Release(f.ctx, holder))
		l := first.get()
		f.pending(second)
		assert.Less(f, time.Since(l.Sent), l.TTL, "the granted lease has time left")
	}},
}
