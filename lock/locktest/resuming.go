// Cases of Import.

package locktest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// exporting makes a case of a function that needs a second client: of another store on the same data, if
// there is one.
func exporting(run func(f *fixture, own, other *lock.Client)) func(f *fixture) {
	return func(f *fixture) {
		other := f.store
		if f.Another != nil {
			other = f.Another(f.T, f.store)
		}
		run(f, f.newClient(), f.clientOf(other))
	}
}

var resuming = []testCase{
	{name: "a_lease_is_resumed", ends: true, run: exporting(func(f *fixture, own, other *lock.Client) {
		l := own.With(lock.Terms{Metadata: "m\x00"}).Mutex(f.prefix + "k")
		h := f.lock(l)
		secret, err := h.Export()
		require.NoError(f, err)
		r, err := other.Resume(f.ctx, secret)
		require.NoError(f, err)
		assert.Equal(f, h.Token(), r.Token())
		require.NoError(f, h.Detach())
		time.Sleep(2 * f.TTL)
		require.NoError(f, r.Err(), "the other client renews the lease")
		require.NoError(f, r.Unlock(f.ctx))
		next := f.lock(l)
		f.rises(r.Token(), next.Token())
		require.NoError(f, next.Unlock(f.ctx))
	})},
	{name: "a_lease_that_is_not_held_is_not_resumed", run: exporting(func(f *fixture, own, other *lock.Client) {
		l := own.Mutex(f.prefix + "k")
		h := f.lock(l)
		secret, err := h.Export()
		require.NoError(f, err)
		require.NoError(f, h.Unlock(f.ctx))
		_, err = other.Resume(f.ctx, secret)
		require.ErrorIs(f, err, lock.ErrNotHeld)
		next := f.lock(l) // Resume has taken nothing
		_, err = other.Resume(f.ctx, secret)
		require.ErrorIs(f, err, lock.ErrNotHeld)
		require.NoError(f, next.Unlock(f.ctx))
	})},
	{name: "one_unlock_ends_a_lease_of_two_holders", run: exporting(func(f *fixture, own, other *lock.Client) {
		for _, exporterFirst := range []bool{true, false} {
			l := own.Mutex(f.prefix + "k")
			h := f.lock(l)
			secret, err := h.Export()
			require.NoError(f, err)
			r, err := other.Resume(f.ctx, secret)
			require.NoError(f, err)
			first, second := h, r
			if !exporterFirst {
				first, second = r, h
			}
			require.NoError(f, first.Unlock(f.ctx))
			next := f.lock(l)
			require.ErrorIs(f, second.Unlock(f.ctx), lock.ErrLost)
			require.NoError(f, next.Renew(f.ctx, 0))
			require.NoError(f, next.Unlock(f.ctx))
		}
	})},
	{name: "what_changes_a_handle_leaves_its_string_of_use", run: exporting(func(f *fixture, own, other *lock.Client) {
		h := f.lock(own.Mutex(f.prefix + "k"))
		secret, err := h.Export()
		require.NoError(f, err)
		longer := f.TTL + f.TTL/2
		if f.limits.Check(longer) == nil {
			require.NoError(f, h.Renew(f.ctx, longer))
		}
		for range 2 {
			r, err := other.Resume(f.ctx, secret)
			require.NoError(f, err)
			assert.Equal(f, h.Token(), r.Token())
			require.NoError(f, r.Detach())
			require.ErrorIs(f, r.Detach(), lock.ErrDetached)
		}
		require.NoError(f, h.Detach())
		last, err := other.Resume(f.ctx, secret)
		require.NoError(f, err)
		require.NoError(f, last.Unlock(f.ctx))
		_, err = other.Resume(f.ctx, secret)
		require.ErrorIs(f, err, lock.ErrNotHeld)
	})},
	{name: "an_imported_lease_is_that_of_its_exporter", run: exporting(func(f *fixture, _, _ *lock.Client) {
		l := f.acquire(f.request("k"))
		imported, err := f.store.Import(driver.Lease{Request: l.Request, Token: l.Token})
		require.NoError(f, err)
		assert.Equal(f, []outcome{renewed, renewed}, f.renew(imported, l), "a lease may be in a batch twice")
		require.NoError(f, f.store.Release(f.ctx, imported))
		assert.Equal(f, []outcome{lost, lost}, f.renew(imported, l))
	})},
}
