// Describe and ReportEvents, which join what the members say.

package quorumstore

import (
	"cmp"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// ReportEvents implements [driver.Store]. An event of a member may concern every lease.
func (q *Store) ReportEvents(report func(renewal.Event)) {
	for _, m := range q.members {
		m.store.ReportEvents(func(e renewal.Event) {
			e.Lane = renewal.AllLanes
			report(e)
		})
	}
}

// Describe implements [driver.Store].
//
// A TTL must be within the limits of all members. A lock lasts as long as its copy at the member
// that keeps it longest. If no TTL is within the limits of all members, Min is above Max, and every
// TTL is refused. The quorum can do what all members can, apart from Wait, List, Save, Watch and Import. Replicas has the
// sums of all members.
func (q *Store) Describe() driver.Description {
	all := q.members[0].store.Describe()
	all.Waits, all.Lists, all.Saves, all.Imports, all.Yields, all.Unordered = false, false, false, false, 0, 0
	all.Addresses = q.addresses
	for _, m := range q.members[1:] {
		one := m.store.Describe()
		all.ReleasesAll = all.ReleasesAll && one.ReleasesAll
		all.Inspects = all.Inspects && one.Inspects
		all.SetsMetadata = all.SetsMetadata && one.SetsMetadata
		all.TTL = jointLimits(all.TTL, one.TTL)
		all.Keeps &= one.Keeps
		all.Replicas.Enough += one.Replicas.Enough
		all.Replicas.TooFew += one.Replicas.TooFew
		all.Replicas.Unanswered += one.Replicas.Unanswered
	}
	return all
}

// jointLimits returns limits that are at least as tight as both. Two different steps cannot be
// one: each rounds up by less than its length, so the longer one becomes slack.
func jointLimits(a, b driver.TTLLimits) driver.TTLLimits {
	joint := driver.TTLLimits{
		Min:    max(a.Min, b.Min),
		Max:    min(cmp.Or(a.Max, driver.MaxTTL), cmp.Or(b.Max, driver.MaxTTL)),
		Step:   a.Step,
		Shared: a.Shared || b.Shared,
		Slack:  max(a.Slack, b.Slack),
	}
	if a.Max == 0 && b.Max == 0 {
		joint.Max = 0
	}
	if a.Step != b.Step {
		joint.Step, joint.Slack = 0, max(a.Slack+a.Step, b.Slack+b.Step)
	}
	return joint
}
