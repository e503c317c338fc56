// Cases of driver.MetadataSetter.

package locktest

import (
	"context"
	"errors"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// setting wraps a case so that it is skipped for a store that is no driver.MetadataSetter.
func setting(run func(f *fixture, s driver.MetadataSetter)) func(f *fixture) {
	return func(f *fixture) {
		s, ok := f.store.(driver.MetadataSetter)
		if !ok || errors.Is(s.SetMetadata(f.ctx, complete(driver.Lease{}, f.request("k")), "m"), errors.ErrUnsupported) {
			f.Log("skipped: the store is no driver.MetadataSetter")
			return
		}
		run(f, s)
	}
}

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

// settingMetadata has the cases of driver.MetadataSetter.
var settingMetadata = []testCase{
	{name: "metadata_are_changed", run: setting(func(f *fixture, s driver.MetadataSetter) {
		for i, first := range []string{"", "first"} {
			key := []string{"a", "b"}[i]
			l := f.acquire(f.named(key, first))
			before := f.inspect(key)
			for _, metadata := range []string{"second", " \n\x00\xff{}%s: 17", strings.Repeat("\xff", driver.MaxMetadataLen), ""} {
				require.NoError(f, s.SetMetadata(f.ctx, l, metadata))
				require.NoError(f, s.SetMetadata(f.ctx, l, metadata), "again")
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
	})},
	{name: "changed_metadata_end_with_their_lease", run: setting(func(f *fixture, s driver.MetadataSetter) {
		l := f.acquire(f.named("k", "first"))
		require.NoError(f, s.SetMetadata(f.ctx, l, "changed"))
		f.release(l)
		assert.Zero(f, f.inspect("k").Held)
		f.acquire(f.named("k", "next"))
		assert.Equal(f, "next", f.metadata("k"))
		require.ErrorIs(f, s.SetMetadata(f.ctx, l, "late"), driver.ErrNotHeld)
		assert.Equal(f, "next", f.metadata("k"))
	})},
	{name: "changed_metadata_do_not_pass_to_a_served_waiter", needs: needsWaiting, run: setting(func(f *fixture, s driver.MetadataSetter) {
		l := f.acquire(f.named("k", "first"))
		c := f.waitFor(f.named("k", "next"))
		require.NoError(f, s.SetMetadata(f.ctx, l, "changed"))
		assert.Equal(f, "changed", f.metadata("k"))
		var places []driver.Place
		if !f.Unordered {
			places = []driver.Place{{Mode: driver.Exclusive, Metadata: "next", Client: driver.ClientName(c.request.Owner)}}
		}
		assert.Equal(f, places, f.inspect("k").Places)
		f.release(l)
		next := c.get()
		assert.Equal(f, "next", f.metadata("k"))
		require.NoError(f, s.SetMetadata(f.ctx, next, "of the next"))
		assert.Equal(f, "of the next", f.metadata("k"))
		f.release(next)
	})},
	{name: "only_the_holder_changes_its_metadata", run: setting(func(f *fixture, s driver.MetadataSetter) {
		require.ErrorIs(f, s.SetMetadata(f.ctx, complete(driver.Lease{Token: 1}, f.request("free")), "m"), driver.ErrNotHeld)
		assert.Zero(f, f.inspect("free").Held)
		l := f.acquire(f.named("k", "first"))
		other := complete(l, f.named("k", "first"))
		require.ErrorIs(f, s.SetMetadata(f.ctx, other, "m"), driver.ErrNotHeld, "another owner")
		if !f.Tokenless {
			stale := l
			stale.Token--
			stale.State = nil
			require.ErrorIs(f, s.SetMetadata(f.ctx, stale, "m"), driver.ErrNotHeld, "another token")
		}
		ctx, cancel := context.WithCancelCause(f.ctx)
		cancel(errCancelled)
		require.ErrorIs(f, s.SetMetadata(ctx, l, "m"), errCancelled)
		assert.Equal(f, "first", f.metadata("k"))
		assert.Equal(f, []outcome{renewed}, f.renew(l))
	})},
	{name: "metadata_of_an_ended_lease_are_not_changed", ends: true, run: setting(func(f *fixture, s driver.MetadataSetter) {
		l := f.acquire(f.named("k", "first"))
		f.expire()
		require.ErrorIs(f, s.SetMetadata(f.ctx, l, "m"), driver.ErrNotHeld)
		assert.Zero(f, f.inspect("k").Held)
	})},
	{name: "metadata_of_foreign_data_are_not_changed", needs: needsSpoil, run: setting(func(f *fixture, s driver.MetadataSetter) {
		l := f.acquire(f.request("k"))
		f.Spoil(f.T, f.store, l.Key)
		require.Error(f, s.SetMetadata(f.ctx, l, "m"))
		assert.True(f, f.Spoiled(f.T, f.store, l.Key))
	})},
}
