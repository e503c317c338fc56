package locktest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConflicts(t *testing.T) {
	lease := func(mode driver.Mode, owner string, token uint64, limit int, members ...string) driver.Lease {
		return driver.Lease{Request: driver.Request{Key: "k", Owner: owner, Mode: mode, Attrs: &driver.Attrs{Limit: limit, Members: members}}, Token: token}
	}
	read, write, permit, batch := driver.Read, driver.Write, driver.Permit, driver.Members
	for name, tc := range map[string]struct {
		gone, inside []driver.Lease
		enters       driver.Lease
		violations   int
	}{
		"a reader beside a reader":                    {inside: []driver.Lease{lease(read, "a", 1, 0)}, enters: lease(read, "b", 2, 0)},
		"an older reader":                             {inside: []driver.Lease{lease(read, "a", 2, 0)}, enters: lease(read, "b", 1, 0)},
		"a writer beside a reader":                    {inside: []driver.Lease{lease(read, "a", 1, 0)}, enters: lease(write, "b", 2, 0), violations: 1},
		"a reader beside a writer":                    {inside: []driver.Lease{lease(write, "a", 1, 0)}, enters: lease(read, "b", 2, 0), violations: 1},
		"a reader older than a writer":                {gone: []driver.Lease{lease(write, "a", 2, 0)}, enters: lease(read, "b", 1, 0), violations: 1},
		"a second reader older than a writer":         {gone: []driver.Lease{lease(write, "a", 2, 0), lease(read, "c", 3, 0)}, enters: lease(read, "b", 1, 0), violations: 1},
		"a writer older than a reader":                {gone: []driver.Lease{lease(read, "a", 2, 0), lease(read, "c", 1, 0)}, enters: lease(write, "b", 1, 0), violations: 2},
		"one permit above the limit":                  {inside: []driver.Lease{lease(permit, "a", 1, 2), lease(permit, "b", 2, 2)}, enters: lease(permit, "c", 3, 2), violations: 1},
		"the last permit":                             {inside: []driver.Lease{lease(permit, "a", 1, 2)}, enters: lease(permit, "c", 3, 2)},
		"two leases with one token":                   {inside: []driver.Lease{lease(permit, "a", 1, 2)}, enters: lease(permit, "b", 1, 2), violations: 1},
		"batches with a common member":                {inside: []driver.Lease{lease(batch, "a", 1, 0, "m", "n")}, enters: lease(batch, "b", 2, 0, "n"), violations: 1},
		"batches without a common member":             {inside: []driver.Lease{lease(batch, "a", 2, 0, "m", "n")}, enters: lease(batch, "b", 1, 0, "o")},
		"a batch older than one with a common member": {gone: []driver.Lease{lease(batch, "a", 1, 0, "m", "n"), lease(batch, "b", 3, 0, "m")}, enters: lease(batch, "c", 2, 0, "m"), violations: 1},
		"a batch older than two with common members":  {gone: []driver.Lease{lease(batch, "a", 3, 0, "m", "n"), lease(batch, "b", 4, 0, "n")}, enters: lease(batch, "c", 2, 0, "m", "n"), violations: 2},
		"a writer that became a reader":               {gone: []driver.Lease{lease(write, "a", 1, 0)}, enters: lease(read, "a", 1, 0)},
		"another family":                              {inside: []driver.Lease{lease(read, "a", 1, 0)}, enters: lease(permit, "b", 2, 9), violations: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := locktest.NewConflicts()
			for _, l := range tc.gone {
				c.Enter(l)
				c.Leave(l)
			}
			for _, l := range tc.inside {
				c.Enter(l)
			}
			before := len(c.Violations())
			c.Enter(tc.enters)
			assert.Len(t, c.Violations(), before+tc.violations)
			assert.Equal(t, len(tc.inside)+1, c.Most("k"))
			assert.Positive(t, c.Entered(tc.enters.Mode))
		})
	}
}

func TestExclusion(t *testing.T) {
	ex := locktest.NewExclusion()
	for _, token := range []uint64{1, 2, 0, 0, 3} {
		ex.Enter("k", token)
		ex.Enter("other", token)
		ex.Leave("k", token)
		ex.Leave("other", token)
	}
	assert.Empty(t, ex.Violations())
	assert.Equal(t, 10, ex.Entered())
	ex.Enter("k", 3)
	assert.Len(t, ex.Violations(), 1, "the token does not rise")
	ex.Enter("k", 4)
	assert.Len(t, ex.Violations(), 2, "the lock has a holder")
}
