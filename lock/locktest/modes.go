// The requests of each mode, and the cases that all modes share.

package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// AllModes are the modes that a store may support besides Exclusive.
var AllModes = []driver.Mode{driver.Read, driver.Write, driver.Permit, driver.Members}

// needsModes returns the condition that a store supports the given modes.
func needsModes(modes ...driver.Mode) func(Config) bool {
	return func(c Config) bool {
		return !slices.ContainsFunc(modes, func(m driver.Mode) bool { return !slices.Contains(c.Modes, m) })
	}
}

// both returns the condition that a and b are true. b may be nil.
func both(a, b func(Config) bool) func(Config) bool {
	return func(c Config) bool { return a(c) && (b == nil || b(c)) }
}

// in returns a request of a mode with a new owner.
func (f *fixture) in(mode driver.Mode, key string, extra *driver.Attrs) driver.Request {
	r := f.request(key)
	r.Mode, r.Attrs = mode, extra
	return r
}

// allModes returns Exclusive and the other modes that the store supports.
func (f *fixture) allModes() []driver.Mode {
	return append([]driver.Mode{driver.Exclusive}, f.Modes...)
}

func (f *fixture) read(key string) driver.Request  { return f.in(driver.Read, key, nil) }
func (f *fixture) write(key string) driver.Request { return f.in(driver.Write, key, nil) }

func (f *fixture) permits(key string, limit, permits int) driver.Request {
	return f.in(driver.Permit, key, &driver.Attrs{Limit: limit, Permits: permits})
}

func (f *fixture) permit(key string, limit int) driver.Request {
	return f.in(driver.Permit, key, &driver.Attrs{Limit: limit})
}

// batch returns a request for members, which must be sorted.
func (f *fixture) batch(key string, members ...string) driver.Request {
	return f.in(driver.Members, key, &driver.Attrs{Members: members})
}

// any returns a request of a mode. Two such requests exclude each other, except for
// readers.
func (f *fixture) any(mode driver.Mode, key string) driver.Request {
	switch mode {
	case driver.Permit:
		return f.permit(key, 1)
	case driver.Members:
		return f.batch(key, "a", "b")
	}
	return f.in(mode, key, nil)
}

// refused expects that a holder or a waiter blocks the request.
func (f *fixture) refused(r driver.Request) *driver.HeldError {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, r)
	var held *driver.HeldError
	require.ErrorAs(f, err, &held, r)
	require.ErrorIs(f, err, driver.ErrNotAcquired)
	assert.Equal(f, r.Key, held.Key)
	assert.LessOrEqual(f, held.ExpiresIn, f.longest(f.TTL))
	return held
}

// release releases leases.
func (f *fixture) release(leases ...driver.Lease) {
	f.Helper()
	for _, l := range leases {
		require.NoError(f, f.store.Release(f.ctx, l), l)
	}
}

type perModeCase struct {
	name  string
	run   func(f *fixture, mode driver.Mode)
	needs func(c Config) bool
}

// perMode has cases that are the same in all modes, Exclusive too, and do not wait.
var perMode = []perModeCase{
	{name: "S3_tokens_rise", run: func(f *fixture, mode driver.Mode) {
		var last uint64
		for range 20 {
			l := f.acquire(f.any(mode, "k"))
			f.rises(last, l.Token)
			last = l.Token
			f.release(l)
		}
	}},
	{name: "S4_only_the_holder_renews_and_releases", run: func(f *fixture, mode driver.Mode) {
		l := f.acquire(f.any(mode, "k"))
		namesake, stranger, older := l, l, l
		namesake.Owner += "0"
		stranger.Owner = "stranger"
		older.Token--
		assert.Equal(f, []outcome{lost, lost, renewed, lost}, f.renew(namesake, stranger, l, older))
		require.ErrorIs(f, f.store.Release(f.ctx, namesake), driver.ErrNotHeld)
		require.ErrorIs(f, f.store.Release(f.ctx, stranger), driver.ErrNotHeld)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		f.refused(f.against(mode, "k"))
	}},
	{name: "L4_a_late_acquire_of_a_released_owner_fails", run: func(f *fixture, mode driver.Mode) {
		r := f.any(mode, "k")
		// The request of Acquire is still on its way when the release is executed.
		require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		require.NotErrorAs(f, err, new(*driver.HeldError), "the lock is free")
		l := f.acquire(f.any(mode, "k")) // other owners can acquire it
		l.Unanswered = true
		f.release(l)
		_, err = f.store.Acquire(f.ctx, l.Request)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		f.acquire(f.any(mode, "k"))
	}},
	{name: "a_cancelled_context_does_nothing", run: func(f *fixture, mode driver.Mode) {
		ctx := f.cancelledContext()
		_, err := f.store.Acquire(ctx, f.any(mode, "k"))
		require.ErrorIs(f, err, errCancelled)
		l := f.acquire(f.any(mode, "k"))
		require.ErrorIs(f, f.store.Release(ctx, l), errCancelled)
		out := make([]renewal.Outcome, 1)
		require.ErrorIs(f, f.store.Renew(ctx, []driver.Lease{l}, out), errCancelled)
		assert.Equal(f, unknown, wordOf(out[0]), "without an answer the outcome is Unknown")
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "a_deleted_lease_is_lost", needs: needsDelete, run: func(f *fixture, mode driver.Mode) {
		l, other := f.acquire(f.any(mode, "k")), f.acquire(f.any(mode, "other"))
		f.Delete(f.T, f.store, l.Key)
		assert.Equal(f, []outcome{lost, renewed}, f.renew(l, other))
		f.rises(l.Token, f.acquire(f.any(mode, "k")).Token) // S3
		require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld)
	}},
	{name: "foreign_data_is_not_changed", needs: needsSpoil, run: func(f *fixture, mode driver.Mode) {
		r := f.any(mode, "k")
		f.Spoil(f.T, f.store, r.Key)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, driver.ErrWrongType)
		require.NotErrorIs(f, err, driver.ErrNotAcquired, "the key is not a held lock")
		assert.NotContains(f, err.Error(), r.Owner, "errors must not show owners")
		_ = f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true})
		assert.True(f, f.Spoiled(f.T, f.store, r.Key), "foreign data is never deleted")
	}},
	{name: "keys_are_bytes", run: func(f *fixture, mode driver.Mode) {
		keys := []string{f.prefix}
		odd := []string{"\x00", "\xff\xfe", "a\r\nb", "{", "{}", "a{b}c", ":", "a:r:", "é", "🔒", "%s", "'\"\\"}
		if mode == driver.Exclusive {
			odd = append(odd, "a", "A", "a ", " a", "a\x00", "a\x00b", "\xff\xff", "\ufffd", "*1\r\n$4\r\nPING\r\n",
				"a}b", "a:t", "a:q", "a:w", "a:x:", "a}:t", "a_t", "a/t", "a%2Ft", "a+t", "a?t", "e\u0301", "%s%d", "--")
			long := f.prefix + strings.Repeat("k", driver.MaxKeyLen-len(f.prefix)-1)
			keys = append(keys, long, long+"1", long+"2")
			for _, k := range odd {
				keys = append(keys, k+f.prefix)
			}
		}
		for _, k := range odd {
			keys = append(keys, f.prefix+k)
		}
		var leases []driver.Lease
		for _, k := range slices.DeleteFunc(keys, func(k string) bool { return !f.usable(k) }) {
			r := f.any(mode, "")
			r.Key = k
			l, err := f.store.Acquire(f.ctx, r)
			require.NoError(f, err, "%q is a separate key", k)
			leases = append(leases, complete(l, r))
		}
		for _, l := range leases {
			assert.Equal(f, []outcome{renewed}, f.renew(l), "%q", l.Key)
		}
		f.release(leases...)
	}},
}

// casesOf returns one case per mode and rule. Those of Exclusive have the names of the rules.
func casesOf(rules []perModeCase) []testCase {
	var cases []testCase
	for _, rule := range rules {
		cases = append(cases, testCase{name: rule.name, needs: rule.needs, run: func(f *fixture) { rule.run(f, driver.Exclusive) }})
		for _, mode := range AllModes {
			cases = append(cases, testCase{
				name:  fmt.Sprintf("%v_%s", mode, rule.name),
				needs: both(needsModes(mode), rule.needs),
				run:   func(f *fixture) { rule.run(f, mode) },
			})
		}
	}
	return cases
}

// unknownModes returns cases of modes that a store does not support. Nobody knows mode 250.
func unknownModes() []testCase {
	var cases []testCase
	for _, mode := range append(slices.Clone(AllModes), 250) {
		cases = append(cases, testCase{
			name:  fmt.Sprintf("%v_is_refused_by_a_store_without_it", mode),
			needs: func(c Config) bool { return !slices.Contains(c.Modes, mode) },
			run: func(f *fixture) {
				_, err := f.store.Acquire(f.ctx, f.any(mode, "k"))
				require.ErrorIs(f, err, errors.ErrUnsupported)
				f.acquire(f.request("k"))
			},
		})
	}
	return cases
}

// allModesTogether has cases for all modes together that wait for leases to end.
var allModesTogether = []testCase{
	{name: "S10_a_repeated_acquire_is_the_same_grant", ends: true, run: func(f *fixture) {
		leases := f.acquireAll()
		time.Sleep(f.TTL / 2)
		var again driver.Lease
		for i, l := range leases {
			assert.Equal(f, f.Tokenless, l.Token == 0, l.Mode)
			got := f.acquire(l.Request)
			assert.Equal(f, l.Token, got.Token, l.Mode)
			if i == 0 || got.Sent.Before(again.Sent) {
				again = got
			}
		}
		f.sleepPast(again, 6)
		for i, got := range f.renew(leases...) {
			assert.Equal(f, renewed, got, "%v: the repeated Acquire must renew the full TTL", leases[i].Mode)
		}
		for _, l := range leases {
			f.release(l)
			require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld, "%v: one release ends the lease", l.Mode)
			next := f.acquire(f.any(l.Mode, l.Mode.String()))
			require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld, l.Mode)
			assert.Equal(f, []outcome{renewed}, f.renew(next), l.Mode)
		}
	}},
	{name: "S5_an_ended_lease_is_not_revived", ends: true, run: func(f *fixture) {
		released := f.acquireAll()
		f.release(released...)
		for _, l := range released {
			assert.Equal(f, []outcome{lost}, f.renew(l), l.Mode)
		}
		ended := f.acquireAll()
		f.expire()
		for i, l := range ended {
			assert.Equal(f, []outcome{lost, lost}, f.renew(l, released[i]), l.Mode)
			require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld, l.Mode)
		}
		for i, l := range f.acquireAll() { // a renewal creates nothing
			require.ErrorIs(f, f.store.Release(f.ctx, ended[i]), driver.ErrNotHeld, "%v: S4", l.Mode)
			assert.Equal(f, []outcome{lost, lost, renewed}, f.renew(ended[i], released[i], l), l.Mode)
			f.rises(ended[i].Token, l.Token) // S3
		}
	}},
	{name: "L0_a_renewed_lease_lasts", ends: true, run: func(f *fixture) {
		leases := f.acquireAll()
		for range 9 {
			time.Sleep(f.TTL / 4) // leaves the rest of the TTL to a busy machine
			for i, got := range f.renew(leases...) {
				require.Equal(f, renewed, got, leases[i].Mode)
			}
		}
		for _, l := range leases {
			assert.Greater(f, f.left(f.against(l.Mode, l.Mode.String())), f.TTL/2, l.Mode)
		}
		f.expire()
		f.acquireAll()
	}},
}

// acquireAll acquires a lock in each supported mode, each with its own key.
func (f *fixture) acquireAll() []driver.Lease {
	f.Helper()
	var leases []driver.Lease
	for _, mode := range f.allModes() {
		leases = append(leases, f.acquire(f.any(mode, mode.String())))
	}
	return leases
}

var families = []testCase{
	{name: "a_key_is_held_in_one_family_at_a_time", ends: true, needs: needsModes(AllModes...), run: func(f *fixture) {
		all := []driver.Mode{driver.Exclusive, driver.Write, driver.Read, driver.Permit, driver.Members}
		for _, mode := range all {
			l := f.acquire(f.any(mode, "k"))
			for _, other := range all {
				if familyOf(other) == familyOf(mode) {
					continue
				}
				_, err := f.store.Acquire(f.ctx, f.any(other, "k"))
				require.ErrorIs(f, err, driver.ErrWrongType, "%v while the key is held in mode %v", other, mode)
				require.NotErrorIs(f, err, driver.ErrNotAcquired)
			}
			assert.Equal(f, []outcome{renewed}, f.renew(l))
			f.release(l)
		}
		for i, mode := range all {
			f.acquire(f.any(mode, fmt.Sprint("ends", i)))
		}
		f.expire()
		for i := range all { // an expired lease frees the key as well
			f.acquire(f.any(all[(i+2)%len(all)], fmt.Sprint("ends", i)))
		}
	}},
	{name: "a_key_whose_waiters_have_died_is_free_for_any_family", ends: true, needs: both(needsModes(AllModes...), needsDie), run: func(f *fixture) {
		all := []driver.Mode{driver.Exclusive, driver.Write, driver.Permit, driver.Members}
		each := func(do func(first, second driver.Mode, key string)) {
			for i, first := range all {
				for j, second := range all {
					if i != j {
						do(first, second, fmt.Sprint(i, " then ", j))
					}
				}
			}
		}
		each(func(first, _ driver.Mode, key string) {
			f.acquire(f.any(first, key))
			f.Die(f.T, f.store, f.any(first, key))
		})
		f.expire()
		each(func(_, second driver.Mode, key string) { f.acquire(f.any(second, key)) })
	}},
}

var mixing = []testCase{
	{name: "leases_of_all_modes_in_one_batch", needs: needsModes(AllModes...), run: func(f *fixture) {
		var batch []driver.Lease
		var want []outcome
		for i := range 200 {
			l := f.acquire(f.any(driver.Mode(i%5), fmt.Sprint(i)))
			expected := renewed
			switch i % 7 {
			case 2:
				f.release(l)
				expected = lost
			case 4:
				l.Owner += "0"
				expected = lost
			case 5:
				l.Token++
				expected = lost
			}
			batch, want = append(batch, l), append(want, expected)
		}
		assert.Equal(f, want, f.renew(batch...))
	}},
}

func familyOf(m driver.Mode) driver.Mode {
	if m == driver.Read {
		return driver.Write
	}
	return m
}
