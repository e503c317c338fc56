// Cases of a lease that is lost, and of what the store has found instead.

package locktest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// explaining has the cases of the reasons of losses.
var explaining = []testCase{
	{name: "a_lost_lease_is_explained", needs: both(needsDelete, needsExplains), run: func(f *fixture) {
		attempt := 0
		f.until(func() bool { // a grant may reach some members of a quorum after the explanation
			attempt++
			key := func(name string) string { return fmt.Sprint(name, attempt) }
			held, missing, taken := f.acquire(f.request(key("held"))), f.acquire(f.request(key("missing"))), f.acquire(f.request(key("taken")))
			f.Delete(f.T, f.store, missing.Key)
			f.Delete(f.T, f.store, taken.Key)
			f.acquire(f.request(key("taken")))
			out := make([]renewal.Outcome, 3)
			require.NoError(f, f.store.Renew(f.ctx, []driver.Lease{missing, held, taken}, out))
			require.Equal(f, []renewal.Outcome{renewal.LostMissing, renewal.Renewed}, out[:2])
			require.True(f, out[2].IsLost())
			return out[2] == renewal.LostTaken
		}, "a lease that another owner has is explained as taken")
	}},
	{name: "a_lock_that_is_kept_is_taken_by_nobody", needs: needsKept, run: func(f *fixture) {
		l := f.acquire(f.request("k"))
		require.NoError(f, f.store.Release(f.ctx, kept(l, f.TTL)))
		out := make([]renewal.Outcome, 1)
		require.NoError(f, f.store.Renew(f.ctx, []driver.Lease{l}, out))
		require.True(f, out[0].IsLost())
		require.NotEqual(f, renewal.LostTaken, out[0])
	}},
}
