package locktest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCheckerOfConflicts(t *testing.T) {
	lease := func(mode lock.Mode, owner string, token uint64, limit int, members ...string) lock.Lease {
		return lock.Lease{Request: lock.Request{Key: "k", Owner: owner, Mode: mode, Extra: &lock.Extra{Limit: limit, Members: members}}, Token: token}
	}
	read, write, permit, batch := lock.Read, lock.Write, lock.Permit, lock.Members
	for name, tc := range map[string]struct {
		gone, inside []lock.Lease
		enters       lock.Lease
		violations   int
	}{
		"a reader beside a reader":            {inside: []lock.Lease{lease(read, "a", 1, 0)}, enters: lease(read, "b", 2, 0)},
		"an older reader":                     {inside: []lock.Lease{lease(read, "a", 2, 0)}, enters: lease(read, "b", 1, 0)},
		"a writer beside a reader":            {inside: []lock.Lease{lease(read, "a", 1, 0)}, enters: lease(write, "b", 2, 0), violations: 1},
		"a reader beside a writer":            {inside: []lock.Lease{lease(write, "a", 1, 0)}, enters: lease(read, "b", 2, 0), violations: 1},
		"a reader older than a writer":        {gone: []lock.Lease{lease(write, "a", 2, 0)}, enters: lease(read, "b", 1, 0), violations: 1},
		"a second reader older than a writer": {gone: []lock.Lease{lease(write, "a", 2, 0), lease(read, "c", 3, 0)}, enters: lease(read, "b", 1, 0), violations: 1},
		"a writer older than a reader":        {gone: []lock.Lease{lease(read, "a", 2, 0), lease(read, "c", 1, 0)}, enters: lease(write, "b", 1, 0), violations: 2},
		"a permit too many":                   {inside: []lock.Lease{lease(permit, "a", 1, 2), lease(permit, "b", 2, 2)}, enters: lease(permit, "c", 3, 2), violations: 1},
		"the last permit":                     {inside: []lock.Lease{lease(permit, "a", 1, 2)}, enters: lease(permit, "c", 3, 2)},
		"one token twice":                     {inside: []lock.Lease{lease(permit, "a", 1, 2)}, enters: lease(permit, "b", 1, 2), violations: 1},
		"batches that meet":                   {inside: []lock.Lease{lease(batch, "a", 1, 0, "m", "n")}, enters: lease(batch, "b", 2, 0, "n"), violations: 1},
		"batches that do not":                 {inside: []lock.Lease{lease(batch, "a", 2, 0, "m", "n")}, enters: lease(batch, "b", 1, 0, "o")},
		"a batch older than a part":           {gone: []lock.Lease{lease(batch, "a", 1, 0, "m", "n"), lease(batch, "b", 3, 0, "m")}, enters: lease(batch, "c", 2, 0, "m"), violations: 1},
		"a batch older than both parts":       {gone: []lock.Lease{lease(batch, "a", 3, 0, "m", "n"), lease(batch, "b", 4, 0, "n")}, enters: lease(batch, "c", 2, 0, "m", "n"), violations: 2},
		"a writer that became a reader":       {gone: []lock.Lease{lease(write, "a", 1, 0)}, enters: lease(read, "a", 1, 0)},
		"another family":                      {inside: []lock.Lease{lease(read, "a", 1, 0)}, enters: lease(permit, "b", 2, 9), violations: 1},
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
