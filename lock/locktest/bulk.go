// Cases of ReleaseAll.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// releaseAll releases leases in one call and returns their errors.
func (f *fixture) releaseAll(ctx context.Context, leases ...driver.Lease) []error {
	f.Helper()
	out := make([]error, len(leases))
	for i := range out {
		out[i] = errors.New("not overwritten")
	}
	require.NoError(f, f.store.ReleaseAll(ctx, leases, out))
	return out
}

func needsBulk(c Config) bool { return c.can.ReleasesAll }

// bulk has the cases of ReleaseAll.
var bulk = []testCase{
	{name: "an_empty_bulk_release_does_nothing", run: func(f *fixture) {
		require.NoError(f, f.store.ReleaseAll(f.ctx, nil, nil))
		assert.Empty(f, f.releaseAll(f.ctx))
	}},
	{name: "each_outcome_of_a_bulk_release_belongs_to_its_lease", run: func(f *fixture) {
		var leases []driver.Lease
		var theirs []bool
		for i := range 40 {
			for _, mode := range f.allModes() {
				l := f.acquire(f.any(mode, fmt.Sprint(mode, i)))
				foreign := i%3 == 0
				if foreign {
					l.Owner += "0"
				}
				leases, theirs = append(leases, l), append(theirs, foreign)
			}
		}
		for i, err := range f.releaseAll(f.ctx, leases...) {
			if theirs[i] {
				require.ErrorIs(f, err, driver.ErrNotHeld, "%v", leases[i])
				assert.NotContains(f, err.Error(), leases[i].Owner, "errors must not show owners")
				f.refused(f.against(leases[i].Mode, leases[i].Key[len(f.prefix):]))
			} else {
				require.NoError(f, err, "%v", leases[i])
				f.rises(leases[i].Token, f.acquire(f.any(leases[i].Mode, leases[i].Key[len(f.prefix):])).Token)
			}
		}
	}},
	{name: "S10_a_repeated_bulk_release_changes_nothing", run: func(f *fixture) {
		var leases, next []driver.Lease
		for i := range 300 {
			leases = append(leases, f.acquire(f.request(fmt.Sprint(i))))
			f.keep(leases)
		}
		assert.Equal(f, make([]error, len(leases)), f.releaseAll(f.ctx, leases...))
		for i := range leases {
			next = append(next, f.acquire(f.request(fmt.Sprint(i))))
			f.keep(next)
		}
		for _, err := range f.releaseAll(f.ctx, leases...) {
			require.ErrorIs(f, err, driver.ErrNotHeld)
		}
		assert.Equal(f, slices.Repeat([]outcome{renewed}, len(next)), f.renew(next...))
	}},
	{name: "L4_a_bulk_release_does_not_need_the_token", run: func(f *fixture) {
		var leases []driver.Lease
		for _, mode := range f.allModes() {
			for i := range 3 {
				l := f.acquire(f.any(mode, fmt.Sprint(mode, i)))
				if i > 0 {
					l.Token = 0
				}
				l.Unanswered = i > 1
				leases = append(leases, l)
			}
		}
		assert.Equal(f, make([]error, len(leases)), f.releaseAll(f.ctx, leases...))
		for _, l := range leases {
			if l.Unanswered {
				_, err := f.store.Acquire(f.ctx, l.Request)
				require.ErrorIs(f, err, driver.ErrNotAcquired, "the tombstone refuses it")
			}
			f.acquire(f.any(l.Mode, l.Key[len(f.prefix):]))
		}
	}},
	{name: "S4_a_bulk_release_of_expired_leases", ends: true, run: func(f *fixture) {
		a, b := f.acquire(f.request("a")), f.acquire(f.request("b"))
		f.expire()
		next := f.acquire(f.request("a"))
		for _, err := range f.releaseAll(f.ctx, a, b) {
			require.ErrorIs(f, err, driver.ErrNotHeld)
		}
		assert.Equal(f, []outcome{renewed}, f.renew(next))
	}},
	{name: "a_bulk_release_with_a_cancelled_context", run: func(f *fixture) {
		a, b := f.acquire(f.request("a")), f.acquire(f.request("b"))
		for _, err := range f.releaseAll(f.cancelledContext(), a, b) {
			require.ErrorIs(f, err, errCancelled)
		}
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(a, b))
	}},
	{name: "foreign_data_does_not_stop_a_bulk_release", needs: needsSpoil, run: func(f *fixture) {
		a, b, c := f.acquire(f.request("a")), f.acquire(f.request("b")), f.acquire(f.request("c"))
		f.Spoil(f.T, f.store, b.Key)
		out := f.releaseAll(f.ctx, a, b, c)
		require.NoError(f, out[0])
		require.Error(f, out[1])
		require.NoError(f, out[2])
		assert.True(f, f.Spoiled(f.T, f.store, b.Key))
		f.acquire(f.request("a"))
		f.acquire(f.request("c"))
	}},
	{name: "a_bulk_release_hands_over", needs: needsWaiting, run: func(f *fixture) {
		var leases []driver.Lease
		var calls []*waitCall
		for _, mode := range f.allModes() {
			for i := range 3 {
				key := fmt.Sprint(mode, i)
				leases = append(leases, f.acquire(f.any(mode, key)))
				if i > 0 {
					calls = append(calls, f.waitFor(f.against(mode, key)))
				}
			}
		}
		assert.Equal(f, make([]error, len(leases)), f.releaseAll(f.ctx, leases...))
		getAll(calls...)
		for _, mode := range f.allModes() {
			f.acquire(f.any(mode, fmt.Sprint(mode, 0)))
		}
	}},
}
