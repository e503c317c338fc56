// Cases of SetMetadata.

package locktest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// named returns a request with metadata.
func (f *fixture) named(key, metadata string) driver.Request {
	r := f.request(key)
	r.Attrs = &driver.Attrs{Metadata: metadata}
	return r
}

// metadata returns the metadata of the holder of a lock.
func (f *fixture) metadata(key string) string {
	f.Helper()
	info := f.inspect(key)
	require.Len(f, info.Holders, 1)
	return info.Holders[0].Metadata
}

// settingMetadata has the cases of SetMetadata.
var settingMetadata = []testCase{
	{name: "metadata_are_changed", run: func(f *fixture) {
		for i, first := range []string{"", "first"} {
			key := []string{"a", "b"}[i]
			l := f.acquire(f.named(key, first))
			before := f.inspect(key)
			for _, metadata := range []string{"second", " \n\x00\xff{}%s: 17", strings.Repeat("\xff", driver.MaxMetadataLen), ""} {
				require.NoError(f, f.store.SetMetadata(f.ctx, l, metadata))
				require.NoError(f, f.store.SetMetadata(f.ctx, l, metadata), "again")
				assert.Equal(f, metadata, f.metadata(key))
				assert.Equal(f, []outcome{renewed}, f.renew(l), "the lease is the same")
				assert.Equal(f, metadata, f.metadata(key), "after a renewal")
			}
			again := f.acquire(l.Request)
			assert.Equal(f, l.Token, again.Token, "the owner is the same")
			assert.Equal(f, before.Holders[0].Token, f.inspect(key).Holders[0].Token)
			f.heldByOther(key)
			f.release(l)
		}
	}},
	{name: "changed_metadata_end_with_their_lease", run: func(f *fixture) {
		l := f.acquire(f.named("k", "first"))
		require.NoError(f, f.store.SetMetadata(f.ctx, l, "changed"))
		f.release(l)
		assert.Zero(f, f.inspect("k").Held)
		f.acquire(f.named("k", "next"))
		assert.Equal(f, "next", f.metadata("k"))
		require.ErrorIs(f, f.store.SetMetadata(f.ctx, l, "late"), driver.ErrNotHeld)
		assert.Equal(f, "next", f.metadata("k"))
	}},
	{name: "changed_metadata_do_not_pass_to_a_served_waiter", needs: needsWaiting, run: func(f *fixture) {
		l := f.acquire(f.named("k", "first"))
		c := f.waitFor(f.named("k", "next"))
		require.NoError(f, f.store.SetMetadata(f.ctx, l, "changed"))
		assert.Equal(f, "changed", f.metadata("k"))
		var places []driver.Place
		if f.can.Unordered == 0 {
			places = []driver.Place{{Mode: driver.Exclusive, Metadata: "next", Client: driver.ClientName(c.request.Owner)}}
		}
		assert.Equal(f, places, f.inspect("k").Places)
		f.release(l)
		next := c.get()
		assert.Equal(f, "next", f.metadata("k"))
		require.NoError(f, f.store.SetMetadata(f.ctx, next, "of the next"))
		assert.Equal(f, "of the next", f.metadata("k"))
		f.release(next)
	}},
	{name: "only_the_holder_changes_its_metadata", run: func(f *fixture) {
		require.ErrorIs(f, f.store.SetMetadata(f.ctx, complete(driver.Lease{Token: 1}, f.request("free")), "m"), driver.ErrNotHeld)
		assert.Zero(f, f.inspect("free").Held)
		l := f.acquire(f.named("k", "first"))
		other := complete(l, f.named("k", "first"))
		require.ErrorIs(f, f.store.SetMetadata(f.ctx, other, "m"), driver.ErrNotHeld, "another owner")
		if !f.Tokenless {
			stale := l
			stale.Token--
			stale.State = nil
			require.ErrorIs(f, f.store.SetMetadata(f.ctx, stale, "m"), driver.ErrNotHeld, "another token")
		}
		ctx := f.cancelledContext()
		require.ErrorIs(f, f.store.SetMetadata(ctx, l, "m"), errCancelled)
		assert.Equal(f, "first", f.metadata("k"))
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	}},
	{name: "metadata_of_an_ended_lease_are_not_changed", ends: true, run: func(f *fixture) {
		l := f.acquire(f.named("k", "first"))
		f.expire()
		require.ErrorIs(f, f.store.SetMetadata(f.ctx, l, "m"), driver.ErrNotHeld)
		assert.Zero(f, f.inspect("k").Held)
	}},
	{name: "metadata_of_foreign_data_are_not_changed", needs: needsSpoil, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		f.Spoil(f.T, f.store, l.Key)
		require.Error(f, f.store.SetMetadata(f.ctx, l, "m"))
		assert.True(f, f.Spoiled(f.T, f.store, l.Key))
	}},
}
