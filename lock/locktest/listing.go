// Cases of List.

package locktest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

func needsLister(c Config) bool { return c.can.Lists }

// list returns the keys with a prefix, without the prefix of the case, sorted and each once.
func (f *fixture) list(prefix string) []string {
	f.Helper()
	keys := make(map[string]bool)
	for cursor, calls := "", 0; calls == 0 || cursor != ""; calls++ {
		require.Less(f, calls, 1_000_000, "the cursors do not end")
		some, next, err := f.store.List(f.ctx, f.prefix+prefix, cursor)
		require.NoError(f, err)
		require.LessOrEqual(f, len(next), 1024)
		for _, key := range some {
			require.True(f, strings.HasPrefix(key, f.prefix+prefix), "%q", key)
			keys[strings.TrimPrefix(key, f.prefix)] = true
		}
		cursor = next
	}
	return slices.Sorted(maps.Keys(keys))
}

var listing = []testCase{
	{name: "held_locks_of_all_modes_are_listed", run: func(f *fixture) {
		assert.Empty(f, f.list(""))
		var want []string
		leases := f.acquireAll()
		for _, mode := range f.allModes() {
			want = append(want, mode.String())
		}
		slices.Sort(want)
		assert.Equal(f, want, f.list(""))
		assert.Equal(f, []string{"exclusive"}, f.list("ex"))
		assert.Equal(f, []string{"exclusive"}, f.list("exclusive"))
		assert.Empty(f, f.list("exclusive2"))
		assert.Empty(f, f.list("Ex"))
		f.release(leases...)
		assert.Empty(f, f.list(""))
	}},
	{name: "a_lock_that_has_ended_is_not_listed", ends: true, run: func(f *fixture) {
		f.acquireAll()
		f.expire()
		assert.Empty(f, f.list(""))
	}},
	{name: "a_kept_lock_is_listed_until_it_is_free", ends: true, needs: needsKept, run: func(f *fixture) {
		var want []string
		for _, mode := range f.keptModes() {
			for name, keep := range map[string]time.Duration{"long": 100 * f.TTL, "short": f.TTL / 4} {
				f.release(kept(f.acquire(f.any(mode, mode.String()+name)), keep))
			}
			want = append(want, mode.String()+"long")
		}
		time.Sleep(f.longest(f.TTL/4) + f.TTL/20 + 2*time.Millisecond)
		slices.Sort(want)
		assert.Equal(f, want, f.list(""))
	}},
	{name: "only_locks_are_listed", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			r := f.any(mode, mode.String())
			f.release(f.acquire(r)) // leaves its token
			refused := f.any(mode, "refused")
			require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: refused, Unanswered: true}), driver.ErrNotHeld)
		}
		assert.Empty(f, f.list(""))
	}},
	{name: "queues_are_not_listed", needs: needsWaiting, run: func(f *fixture) {
		var leases []driver.Lease
		var waiters []*waitCall
		var want []string
		for _, mode := range f.allModes() {
			first, second := f.any(mode, mode.String()), f.any(mode, mode.String())
			if mode == driver.Read {
				first.Mode = driver.Write // otherwise the second one need not wait
			}
			leases = append(leases, f.acquire(first))
			waiters = append(waiters, f.waitFor(second))
			want = append(want, mode.String())
		}
		slices.Sort(want)
		assert.Equal(f, want, f.list(""))
		f.release(leases...)
		for _, w := range waiters {
			f.release(w.get())
		}
	}},
	{name: "prefixes_are_bytes", run: func(f *fixture) {
		keys := []string{
			"*", "**", "?", "[", "[a]", "[^a]", "\\", "\\*", "a", "a*", "a?", "a[", "a\\", "a]", "a^", "a-", "a{", "a}", "a{}", "a}b", "a:t", "a:q", "a}:t",
			"\x00", "a\x00", "\xff", "\xff\xfe", "a b", "a\r\nb", "A", "é", "🔒",
		}
		slices.Sort(keys)
		for _, key := range keys {
			f.acquire(f.request(key))
		}
		assert.Equal(f, keys, f.list(""))
		for _, prefix := range keys {
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) {
					want = append(want, key)
				}
			}
			assert.Equal(f, want, f.list(prefix), "prefix %q", prefix)
		}
		assert.Empty(f, f.list("??"))
		assert.Equal(f, []string{"[a]"}, f.list("[a"))
	}},
	{name: "many_locks_are_listed_while_others_come_and_go", run: func(f *fixture) {
		const n = 1200 // more than one call of List returns
		var want []string
		var leases []driver.Lease
		for i := range n {
			key := fmt.Sprintf("kept %04d", i)
			leases = append(leases, f.acquire(f.request(key)))
			want = append(want, key)
			f.keep(leases)
		}
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				l, err := f.store.Acquire(f.ctx, f.request(fmt.Sprint("other ", i%300)))
				if !assert.NoError(f, err) {
					return
				}
				if !assert.NoError(f, f.store.Release(f.ctx, l)) {
					return
				}
			}
		}()
		for range 3 {
			assert.Equal(f, want, f.list("kept"))
			f.keep(leases)
		}
		close(done)
		<-stopped
	}},
	{name: "a_client_lists_each_lock_once", run: func(f *fixture) {
		f.acquireAll()
		c := f.newClient()
		n := 0
		for key, err := range c.List(f.ctx, f.prefix) {
			require.NoError(f, err)
			info, err := c.Inspect(f.ctx, key)
			require.NoError(f, err)
			assert.Equal(f, 1, info.Held, "%q", key)
			n++
		}
		assert.Equal(f, 1+len(f.Modes), n)
	}},
	{name: "a_cancelled_context_lists_nothing", run: func(f *fixture) {
		f.acquire(f.request("k"))
		ctx := f.cancelledContext()
		keys, _, err := f.store.List(ctx, f.prefix, "")
		require.ErrorIs(f, err, errCancelled)
		assert.Empty(f, keys)
	}},
	{name: "a_strange_cursor_is_refused", run: func(f *fixture) {
		for _, cursor := range []string{"x", "-1", "1.2", "99999999999999999999", "....", "99.0.", "0.99.x"} {
			_, _, err := f.store.List(f.ctx, f.prefix, cursor)
			require.Error(f, err, "List of the prefix %q accepts the cursor %q, which it cannot have returned", f.prefix, cursor)
		}
	}},
}
