// Cases of Inspect and ForceRelease.

package locktest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func needsInspector(c Config) bool { return c.can.Inspects }

// inspect returns the Info of a lock, without the times for which waiters have waited.
func (f *fixture) inspect(key string) driver.Info {
	f.Helper()
	info, err := f.store.Inspect(f.ctx, f.prefix+key)
	require.NoError(f, err)
	assert.Len(f, info.Holders, min(info.Held, 16))
	for i := range info.Places {
		assert.Equal(f, f.can.TimesWaiters, info.Places[i].Waited > 0, "Description.TimesWaiters")
		info.Places[i].Waited = 0
	}
	return info
}

func (f *fixture) force(key string) error {
	return f.store.ForceRelease(f.ctx, f.prefix+key)
}

var inspecting = []testCase{
	{name: "a_lock_is_shown", ends: true, run: func(f *fixture) {
		assert.Equal(f, driver.Info{}, f.inspect("k"))
		l := f.acquire(f.request("k"))
		time.Sleep(20 * time.Millisecond)
		info := f.inspect("k")
		require.Len(f, info.Holders, 1)
		h := info.Holders[0]
		assert.Positive(f, h.ExpiresIn)
		assert.LessOrEqual(f, h.ExpiresIn, f.longest(f.TTL)-10*time.Millisecond, "the remaining time")
		h.ExpiresIn = 0
		assert.Equal(f, driver.Holder{Mode: driver.Exclusive, Token: l.Token, Client: driver.ClientName(l.Owner)}, h)
		info.Holders = nil
		assert.Equal(f, driver.Info{Held: 1, Token: l.Token}, info)
		f.release(l)
		info = f.inspect("k")
		assert.Zero(f, info.Held)
		assert.LessOrEqual(f, info.Token, l.Token)
		f.acquire(f.request("k"))
		f.expire()
		assert.Zero(f, f.inspect("k").Held)
	}},
	{name: "locks_of_all_modes_are_shown", run: func(f *fixture) {
		for _, l := range f.acquireAll() {
			info := f.inspect(l.Mode.String())
			require.Len(f, info.Holders, 1, l.Mode)
			h := info.Holders[0]
			assert.Equal(f, l.Mode, h.Mode)
			assert.Equal(f, l.Token, h.Token, l.Mode)
			assert.Equal(f, l.Token, info.Token, l.Mode)
			assert.Positive(f, h.ExpiresIn, l.Mode)
			assert.Equal(f, driver.ClientName(l.Owner), h.Client, l.Mode)
			assert.Len(f, l.Members(), h.Members, l.Mode)
		}
	}},
	{name: "many_holders_are_counted_and_the_first_are_shown", needs: needsModes(driver.Permit), run: func(f *fixture) {
		var leases []driver.Lease
		for range 20 {
			leases = append(leases, f.acquire(f.permit("k", 100)))
		}
		info := f.inspect("k")
		assert.Equal(f, 20, info.Held)
		for i, h := range info.Holders {
			assert.Equal(f, leases[i].Token, h.Token)
		}
	}},
	{name: "places_are_shown_in_the_order_of_the_queue", needs: needsOrder, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		var waiters []*waitCall
		var want []driver.Place
		for i := range 17 {
			r := f.request("k")
			if i > 0 { // the first one has none
				r.Attrs = &driver.Attrs{Metadata: fmt.Sprintf("waiter %d\x00", i)}
			}
			waiters = append(waiters, f.waitFor(r))
			want = append(want, driver.Place{Mode: driver.Exclusive, Metadata: r.Metadata(), Client: driver.ClientName(r.Owner)})
		}
		info := f.inspect("k")
		assert.Equal(f, want, info.Places)
		assert.Equal(f, len(want), info.Waiting)
		f.release(l)
		f.release(waiters[0].get())
		next := waiters[1].get()
		assert.Equal(f, want[2:], f.inspect("k").Places)
		f.release(next)
		for i, w := range waiters[2:] {
			l = w.get()
			info = f.inspect("k")
			assert.Equal(f, 1, info.Held)
			assert.Equal(f, len(waiters)-3-i, info.Waiting)
			assert.Len(f, info.Places, info.Waiting)
			f.release(l)
		}
	}},
	{name: "clients_of_waiters_are_shown_in_all_modes", needs: needsOrder, run: func(f *fixture) {
		for _, mode := range f.allModes() {
			key := "k" + mode.String()
			holder := f.acquire(f.against(mode, key))
			var waiters []*waitCall
			var want []driver.Place
			for i, client := range []string{"one", "a:colon", "one"} {
				r := f.any(mode, key)
				r.Owner = f.client[:16] + client + r.Owner[len(f.client):]
				attrs := driver.Attrs{Limit: r.Limit(), Members: r.Members(), Metadata: fmt.Sprintf("waiter\n%d\x00", i)}
				r.Attrs = &attrs
				waiters = append(waiters, f.waitFor(r))
				want = append(want, driver.Place{Mode: mode, Metadata: r.Metadata(), Client: driver.ClientName(r.Owner)})
			}
			info := f.inspect(key)
			assert.Equal(f, want, info.Places, mode)
			assert.Equal(f, want[0].Client, want[2].Client, "one client has one name")
			assert.NotEqual(f, want[0].Client, want[1].Client)
			assert.Equal(f, driver.ClientName(holder.Owner), info.Holders[0].Client, mode)
			f.release(holder)
			for _, w := range waiters {
				l := w.get()
				shown := make(map[uint64]string)
				for _, h := range f.inspect(key).Holders {
					shown[h.Token] = h.Client
				}
				assert.Equal(f, driver.ClientName(l.Owner), shown[l.Token], mode)
				f.release(l)
			}
		}
	}},
	{name: "the_times_of_waiters_are_shown", ends: true, needs: both(needsOrder, func(c Config) bool { return c.can.TimesWaiters }), run: func(f *fixture) {
		type waiting struct {
			*waitCall
			from, until time.Time // its arrival lies between them
		}
		enter := func(mode driver.Mode) waiting {
			from := time.Now()
			call := f.waitFor(f.lasting(f.any(mode, mode.String()), 4*f.TTL))
			return waiting{call, from, time.Now()}
		}
		shows := func(mode driver.Mode, waiters ...waiting) {
			sent := time.Now()
			info, err := f.store.Inspect(f.ctx, f.prefix+mode.String())
			require.NoError(f, err)
			require.Len(f, info.Places, len(waiters), mode)
			for i, w := range waiters {
				slack := f.TTL / 100 // a store may round
				assert.GreaterOrEqual(f, info.Places[i].Waited, sent.Sub(w.until)-slack, "%v, waiter %d", mode, i)
				assert.LessOrEqual(f, info.Places[i].Waited, time.Since(w.from)+slack, "%v, waiter %d", mode, i)
			}
		}
		var holders []driver.Lease
		var first []waiting
		for _, mode := range f.allModes() {
			holders = append(holders, f.acquire(f.lasting(f.against(mode, mode.String()), 100*f.TTL)))
			first = append(first, enter(mode))
		}
		time.Sleep(f.TTL) // the waiters extend their places
		for i, mode := range f.allModes() {
			second := enter(mode)
			shows(mode, first[i], second)
			f.release(holders[i])
			l := first[i].get()
			if mode != driver.Read { // readers are served together
				shows(mode, second)
			}
			f.release(l)
			f.release(second.get())
		}
	}},
	{name: "metadata_are_shown", needs: needsMetadata, run: func(f *fixture) {
		for _, mode := range f.allModes() {
			for i, metadata := range []string{"host 17, \"a reason\"", "17", " \n\x00\xff{}%s:", strings.Repeat("\xff", driver.MaxMetadataLen)} {
				key := fmt.Sprint(mode, i)
				r := f.any(mode, key)
				r.Attrs = &driver.Attrs{Limit: r.Limit(), Members: r.Members(), Metadata: metadata}
				l := f.acquire(r)
				assert.Equal(f, l.Token, f.acquire(r).Token, "S10")
				info := f.inspect(key)
				require.Len(f, info.Holders, 1, mode)
				assert.Equal(f, metadata, info.Holders[0].Metadata, mode)
				assert.Equal(f, []outcome{renewed}, f.renew(l), mode)
				assert.Equal(f, metadata, f.inspect(key).Holders[0].Metadata, mode)
				f.release(l)
				assert.Zero(f, f.inspect(key).Held, mode)
			}
		}
	}},
	{name: "metadata_of_a_served_waiter_are_shown", needs: both(needsMetadata, needsWaiting), run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		r := f.request("k")
		r.Attrs = &driver.Attrs{Metadata: "the next"}
		c := f.waitFor(r)
		assert.Empty(f, f.inspect("k").Holders[0].Metadata)
		f.release(l)
		next := c.get()
		assert.Equal(f, "the next", f.inspect("k").Holders[0].Metadata)
		assert.Equal(f, []outcome{renewed}, f.renew(next))
		f.release(next)
		f.acquire(f.request("k"))
	}},
	{name: "ForceRelease_ends_a_lease", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			key := mode.String()
			require.ErrorIs(f, f.force(key), driver.ErrNotHeld, key)
			l := f.acquire(f.any(mode, key))
			require.NoError(f, f.force(key), key)
			assert.Equal(f, []outcome{lost}, f.renew(l), key)
			require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld, key)
			require.ErrorIs(f, f.force(key), driver.ErrNotHeld, key)
			next := f.acquire(f.any(mode, key))
			f.rises(l.Token, next.Token)
			assert.Equal(f, []outcome{lost, renewed}, f.renew(l, next), key)
		}
	}},
	{name: "ForceRelease_serves_waiters", needs: needsOrder, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		first, second := f.wait("k"), f.wait("k")
		require.NoError(f, f.force("k"))
		assert.Positive(f, f.Waiting(f.T, f.store, l.Key), "the second waiter keeps its place")
		next := first.get()
		f.rises(l.Token, next.Token)
		f.pending(second)
		assert.Equal(f, []outcome{lost, renewed}, f.renew(l, next))
		require.NoError(f, f.force("k"))
		f.rises(next.Token, second.get().Token)
	}},
	{name: "ForceRelease_ends_all_leases_of_a_key", needs: needsModes(AllModes...), run: func(f *fixture) {
		for key, r := range map[string]func() driver.Request{
			"r": func() driver.Request { return f.read("r") },
			"s": func() driver.Request { return f.permit("s", 3) },
			"g": func() driver.Request { return f.batch("g", fmt.Sprint(f.serial.Load())) },
		} {
			a, b, c := f.acquire(r()), f.acquire(r()), f.acquire(r())
			require.NoError(f, f.force(key), key)
			assert.Equal(f, []outcome{lost, lost, lost}, f.renew(a, b, c), key)
			require.ErrorIs(f, f.force(key), driver.ErrNotHeld, key)
			f.acquire(f.request(key))
		}
	}},
	{name: "a_holder_notices_ForceRelease", ends: true, run: func(f *fixture) {
		h := f.lock(f.newClient().Mutex(f.prefix + "k"))
		start := time.Now()
		require.NoError(f, f.force("k"))
		f.ended(h)
		assert.Less(f, time.Since(start), f.TTL, "noticed at the next renewal, not at the deadline")
		require.ErrorIs(f, h.Unlock(f.ctx), driver.ErrLost)
	}},
	{name: "a_cancelled_context_neither_shows_nor_releases", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		ctx := f.cancelledContext()
		_, err := f.store.Inspect(ctx, l.Key)
		require.ErrorIs(f, err, errCancelled)
		require.ErrorIs(f, f.store.ForceRelease(ctx, l.Key), errCancelled)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "foreign_data_is_neither_shown_nor_released", needs: needsSpoil, run: func(f *fixture) {
		key := f.prefix + "k"
		f.Spoil(f.T, f.store, key)
		_, err := f.store.Inspect(f.ctx, key)
		require.ErrorIs(f, err, driver.ErrWrongType)
		require.ErrorIs(f, f.force("k"), driver.ErrWrongType)
		assert.True(f, f.Spoiled(f.T, f.store, key))
	}},
}
