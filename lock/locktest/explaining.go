package locktest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// explaining has the cases of renewal.Explainer.
var explaining = []testCase{
	{name: "a_lost_lease_is_explained", needs: needsDelete, run: func(f *fixture) {
		explainer, ok := f.store.(renewal.Explainer[driver.Lease])
		if !ok {
			f.Log("skipped: the store is no renewal.Explainer")
			return
		}
		attempt := 0
		f.until(func() bool { // a grant may reach some members of a quorum after the explanation
			attempt++
			key := func(name string) string { return fmt.Sprint(name, attempt) }
			held, missing, taken := f.acquire(f.request(key("held"))), f.acquire(f.request(key("missing"))), f.acquire(f.request(key("taken")))
			f.Delete(f.T, f.store, missing.Key)
			f.Delete(f.T, f.store, taken.Key)
			f.acquire(f.request(key("taken")))
			batch := []driver.Lease{missing, held, taken}
			out, why := make([]renewal.Outcome, 3), make([]renewal.Denial, 3)
			require.NoError(f, explainer.RenewExplained(f.ctx, batch, out, why))
			require.Equal(f, []renewal.Outcome{renewal.Lost, renewal.Renewed, renewal.Lost}, out)
			require.Equal(f, []renewal.Denial{renewal.DeniedMissing, renewal.DeniedUnknown}, why[:2])
			return why[2] == renewal.DeniedTaken
		}, "a lease that another owner has is explained as taken")
	}},
}
