package locktest

import (
	"github.com/stretchr/testify/assert"
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
		held, missing, taken := f.acquire(f.request("held")), f.acquire(f.request("missing")), f.acquire(f.request("taken"))
		f.Delete(f.T, f.store, missing.Key)
		f.Delete(f.T, f.store, taken.Key)
		f.acquire(f.request("taken"))
		batch := []driver.Lease{missing, held, taken}
		out, why := make([]renewal.Outcome, 3), make([]renewal.Denial, 3)
		require.NoError(f, explainer.RenewExplained(f.ctx, batch, out, why))
		assert.Equal(f, []renewal.Outcome{renewal.Lost, renewal.Renewed, renewal.Lost}, out)
		assert.Equal(f, []renewal.Denial{renewal.DeniedMissing, renewal.DeniedUnknown, renewal.DeniedTaken}, why)
	}},
}
