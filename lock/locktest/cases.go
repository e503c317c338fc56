// Cases of Acquire, Renew and Release in mode Exclusive.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

var acquiring = []testCase{
	{name: "S1_a_lock_has_one_holder", run: func(f *fixture) {
		r := f.request("k")
		l := f.acquire(r)
		assert.Equal(f, f.Tokenless, l.Token == 0)
		held := f.heldByOther("k")
		assert.Equal(f, r.Key, held.Key)
		assert.Positive(f, held.ExpiresIn)
		assert.LessOrEqual(f, held.ExpiresIn, f.longest(f.TTL))
		f.acquire(f.request("other"))
	}},
	{name: "S10_a_repeated_acquire_is_the_same_grant", ends: true, run: func(f *fixture) {
		r := f.request("k")
		l := f.acquire(r)
		time.Sleep(f.TTL / 2)
		again := f.acquire(r)
		assert.Equal(f, l.Token, again.Token)
		f.sleepPast(again, 6)
		f.heldByOther("k") // the repeated Acquire has renewed the full TTL
	}},
	{name: "L2_a_lock_ends_with_its_TTL", ends: true, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		got := time.Now()
		f.sleepPast(l, 6)
		f.heldByOther("k")
		f.outlast(got)
		f.acquire(f.request("k"))
	}},
	{name: "S3_tokens_rise", ends: true, needs: needsTokens, run: func(f *fixture) {
		var last uint64
		for i := range 20 {
			l := f.acquire(f.request("k"))
			assert.Greater(f, l.Token, last, "grant %d", i)
			last = l.Token
			require.NoError(f, f.store.Release(f.ctx, l))
		}
		f.acquire(f.request("k"))
		f.expire()
		assert.Greater(f, f.acquire(f.request("k")).Token, last+1, "tokens rise after a lease has ended")
	}},
	{name: "S3_tokens_rise_over_a_deletion", needs: func(c Config) bool { return needsTokens(c) && needsDelete(c) }, run: func(f *fixture) {
		r := f.request("k")
		l := f.acquire(r)
		f.Delete(f.T, f.store, r.Key)
		assert.Greater(f, f.acquire(f.request("k")).Token, l.Token)
	}},
	{name: "keys_are_bytes", run: func(f *fixture) {
		odd := []string{
			"a", "A", "a ", " a", "a\x00", "a\x00b", "\xff\xfe", "\xff\xff", "\ufffd", "a\r\nb", "*1\r\n$4\r\nPING\r\n",
			"{", "{}", "a{b}c", "a}b", "a:t", "a:q", "a:w", "a:x:", "a}:t", "a_t", "a/t", "a%2Ft", "a+t", "a?t", "é", "e\u0301",
			"🔒", "%s%d", "'\"\\", "--",
		}
		var keys []string
		for _, k := range odd {
			keys = append(keys, k+f.prefix, f.prefix+k)
		}
		long := f.prefix + strings.Repeat("k", driver.MaxKeyLen-len(f.prefix)-1)
		keys = append(keys, f.prefix, long, long+"1", long+"2")
		keys = slices.DeleteFunc(keys, func(k string) bool { return !f.usable(k) })
		tokens := map[string]driver.Lease{}
		for _, k := range keys {
			r := f.request("")
			r.Key = k
			l, err := f.store.Acquire(f.ctx, r)
			require.NoError(f, err, "%q is a separate key", k)
			tokens[k] = complete(l, r)
		}
		for _, k := range keys {
			assert.Equal(f, []outcome{renewed}, f.renew(tokens[k]), "%q", k)
			assert.NoError(f, f.store.Release(f.ctx, tokens[k]), "%q", k)
		}
	}},
}

var renewing = []testCase{
	{name: "L0_a_renewed_lock_lasts", ends: true, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		for range 9 {
			time.Sleep(f.TTL / 4) // leaves the rest of the TTL to a busy machine
			assert.Equal(f, []outcome{renewed}, f.renew(l))
		}
		held := f.heldByOther("k")
		assert.Greater(f, held.ExpiresIn, f.TTL/2)
		f.expire()
		f.acquire(f.request("k"))
	}},
	{name: "S5_a_lock_that_has_ended_is_not_revived", ends: true, run: func(f *fixture) {
		l, other := f.acquire(f.request("k")), f.acquire(f.request("other"))
		f.expire()
		require.ErrorIs(f, f.store.Release(f.ctx, other), driver.ErrNotHeld, "the lease has ended")
		assert.Equal(f, []outcome{lost}, f.renew(l))
		f.acquire(f.request("k")) // a renewal creates nothing
		assert.Equal(f, []outcome{lost}, f.renew(l))
	}},
	{name: "S4_only_the_holder_renews", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		stranger := l
		stranger.Owner = "stranger"
		older := l
		older.Token--
		assert.Equal(f, []outcome{lost, renewed, lost}, f.renew(stranger, l, older))
	}},
	{name: "S5_a_released_lock_is_not_revived", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		require.NoError(f, f.store.Release(f.ctx, l))
		assert.Equal(f, []outcome{lost}, f.renew(l))
		f.acquire(f.request("k"))
	}},
	{name: "a_deleted_lock_is_lost", needs: needsDelete, run: func(f *fixture) {
		a, b := f.acquire(f.request("a")), f.acquire(f.request("b"))
		f.Delete(f.T, f.store, a.Key)
		assert.Equal(f, []outcome{lost, renewed}, f.renew(a, b))
		f.acquire(f.request("a"))
	}},
	{name: "each_outcome_belongs_to_its_lease", run: func(f *fixture) {
		var batch []driver.Lease
		var want []outcome
		for i := range 1000 {
			r := f.request(fmt.Sprint(i))
			r.TTL = f.aMinute() - time.Duration(i%3)*f.aMinute()/20 // leases with different TTLs in one batch
			switch i % 7 {
			case 2: // no owner holds it
				batch = append(batch, driver.Lease{Request: r, Token: 1})
				want = append(want, lost)
			case 4: // another owner holds it
				l := f.acquire(r)
				l.Owner = "stranger"
				batch = append(batch, l)
				want = append(want, lost)
			default:
				batch = append(batch, f.acquire(r))
				want = append(want, renewed)
			}
			f.keep(batch)
		}
		before := slices.Clone(batch)
		for i, got := range f.renew(batch...) {
			require.Equal(f, want[i], got, "out[%d] must belong to batch[%d], of %d leases", i, i, len(batch))
			require.Equal(f, before[i].Request, batch[i].Request, "batch[%d]: Renew must not change the batch", i)
		}
	}},
	{name: "one_lease_twice_in_a_batch", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(l, l))
	}},
	{name: "an_empty_batch", run: func(f *fixture) {
		assert.NoError(f, f.store.Renew(f.ctx, nil, nil))
	}},
}

var releasing = []testCase{
	{name: "a_released_lock_is_free", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		require.NoError(f, f.store.Release(f.ctx, l))
		f.acquire(f.request("k"))
	}},
	{name: "S10_a_repeated_release_changes_nothing", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		require.NoError(f, f.store.Release(f.ctx, l))
		require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld)
		next := f.acquire(f.request("k"))
		require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld)
		assert.Equal(f, []outcome{renewed}, f.renew(next))
	}},
	{name: "S4_only_the_holder_releases", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		stranger := l
		stranger.Owner = "stranger"
		require.ErrorIs(f, f.store.Release(f.ctx, stranger), driver.ErrNotHeld)
		f.heldByOther("k")
	}},
	{name: "S4_a_holder_that_was_overtaken_releases_nothing", ends: true, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		f.expire()
		next := f.acquire(f.request("k"))
		require.ErrorIs(f, f.store.Release(f.ctx, l), driver.ErrNotHeld)
		assert.Equal(f, []outcome{renewed}, f.renew(next))
	}},
	{name: "L4_a_release_does_not_need_the_token", run: func(f *fixture) {
		for _, mode := range f.allModes() {
			l := f.acquire(f.any(mode, mode.String()))
			l.Token = 0 // its Acquire was answered too late or not at all
			require.NoError(f, f.store.Release(f.ctx, l), "%v: an owner has one lease, so Release needs no token", mode)
			l = f.acquire(f.any(mode, mode.String()))
			l.Token, l.Unanswered = 0, true
			require.NoError(f, f.store.Release(f.ctx, l), mode)
			f.acquire(f.any(mode, mode.String()))
		}
	}},
	{name: "L4_a_late_acquire_of_a_released_owner_fails", run: func(f *fixture) {
		r := f.request("k")
		// The request of Acquire is still on its way when the release is executed.
		require.ErrorIs(f, f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		var held *driver.HeldError
		require.NotErrorAs(f, err, &held, "the lock is free")
		f.acquire(f.request("k")) // other owners can acquire it
	}},
	{name: "L4_a_release_of_a_lock_with_an_unanswered_acquire", run: func(f *fixture) {
		r := f.request("k")
		l := f.acquire(r)
		l.Unanswered = true
		require.NoError(f, f.store.Release(f.ctx, l))
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, driver.ErrNotAcquired)
		f.acquire(f.request("k"))
	}},
}

var refusing = []testCase{
	{name: "the_store_can_do_what_it_says", run: func(f *fixture) {
		l, other, s := f.acquire(f.request("k")), f.acquire(f.request("other")), f.store
		check := func(says bool, field string, err error) {
			f.Helper()
			assert.Equal(f, says, !errors.Is(err, errors.ErrUnsupported), "Description.%s, and the method returns: %v", field, err)
		}
		_, err := s.Wait(f.ctx, f.request("w"), func() {})
		check(f.can.Waits, "Waits", err)
		check(f.can.ReleasesAll, "ReleasesAll", s.ReleaseAll(f.ctx, []driver.Lease{other}, make([]error, 1)))
		_, err = s.Inspect(f.ctx, l.Key)
		check(f.can.Inspects, "Inspects", err)
		check(f.can.Inspects, "Inspects", s.ForceRelease(f.ctx, f.prefix+"free"))
		_, _, err = s.List(f.ctx, f.prefix, "")
		check(f.can.Lists, "Lists", err)
		check(f.can.SetsMetadata, "SetsMetadata", s.SetMetadata(f.ctx, l, "m"))
		check(f.can.Saves, "Saves", s.Save(f.ctx, l, 1, []byte("state"), f.TTL))
		check(f.can.Saves, "Saves", s.Forget(f.ctx, l.Key))
		_, err = s.Import(l)
		check(f.can.Imports, "Imports", err)
	}},
	{name: "a_cancelled_context_does_nothing", run: func(f *fixture) {
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(cause)
		_, err := f.store.Acquire(ctx, f.request("k"))
		require.ErrorIs(f, err, cause)
		l := f.acquire(f.request("k"))
		require.ErrorIs(f, f.store.Release(ctx, l), cause)
		f.heldByOther("k")
		out := make([]renewal.Outcome, 1)
		require.ErrorIs(f, f.store.Renew(ctx, []driver.Lease{l}, out), cause)
		assert.Equal(f, unknown, wordOf(out[0]), "without an answer the outcome is Unknown")
	}},
	{name: "a_mode_that_is_not_supported", run: func(f *fixture) {
		r := f.request("k")
		r.Mode = 250
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, errors.ErrUnsupported)
		f.acquire(f.request("k"))
	}},
	{name: "foreign_data_is_not_changed", needs: needsSpoil, run: func(f *fixture) {
		r := f.request("k")
		f.Spoil(f.T, f.store, r.Key)
		_, err := f.store.Acquire(f.ctx, r)
		require.ErrorIs(f, err, driver.ErrWrongType)
		require.NotErrorIs(f, err, driver.ErrNotAcquired, "the key is not a held lock")
		assert.NotContains(f, err.Error(), r.Owner, "errors must not show owners")
		_ = f.store.Release(f.ctx, driver.Lease{Request: r, Unanswered: true})
		assert.True(f, f.Spoiled(f.T, f.store, r.Key), "foreign data is never deleted")
	}},
	{name: "foreign_data_does_not_affect_the_rest_of_a_batch", needs: needsSpoil, run: func(f *fixture) {
		a, b, c := f.acquire(f.request("a")), f.acquire(f.request("b")), f.acquire(f.request("c"))
		f.Spoil(f.T, f.store, b.Key)
		out := make([]renewal.Outcome, 3)
		_ = f.store.Renew(f.ctx, []driver.Lease{a, b, c}, out)
		assert.Equal(f, renewed, wordOf(out[0]))
		assert.NotEqual(f, renewed, wordOf(out[1]), "the lease no longer exists")
		assert.Equal(f, renewed, wordOf(out[2]))
		assert.True(f, f.Spoiled(f.T, f.store, b.Key))
	}},
	{name: "errors_keep_the_owner_secret", run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		other := f.request("k")
		_, err := f.store.Acquire(f.ctx, other)
		require.Error(f, err)
		for _, format := range []string{"%v", "%+v", "%#v"} {
			assert.NotContains(f, fmt.Sprintf(format, err), l.Owner)
			assert.NotContains(f, fmt.Sprintf(format, err), other.Owner)
			assert.NotContains(f, fmt.Sprintf(format, l), l.Owner)
			assert.NotContains(f, fmt.Sprintf(format, l.Request), l.Owner)
		}
	}},
}

var contending = []testCase{
	{name: "S1_S3_many_at_a_time", run: func(f *fixture) {
		const clients, rounds = 8, 15
		ex := NewExclusion()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() { f.contendFor(ex, "k", rounds) })
		}
		wg.Wait()
		assert.Empty(f, ex.Violations())
		assert.Equal(f, clients*rounds, ex.Entered())
	}},
}

// contendFor acquires and releases a contended lock several times.
func (f *fixture) contendFor(ex *Exclusion, key string, rounds int) {
	for range rounds {
		r := f.request(key)
		var l driver.Lease
		for {
			got, err := f.store.Acquire(f.ctx, r)
			if err == nil {
				l = complete(got, r)
				break
			}
			if !assert.ErrorIs(f, err, driver.ErrNotAcquired) {
				return
			}
			time.Sleep(time.Millisecond + rand.N(8*time.Millisecond))
		}
		ex.Enter(r.Key, l.Token)
		assert.Equal(f, []outcome{renewed}, f.renew(l))
		ex.Leave(r.Key, l.Token)
		assert.NoError(f, f.store.Release(f.ctx, l))
	}
}
