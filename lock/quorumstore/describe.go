// Describe and ReportEvents, which join what the members say.

package quorumstore

import (
	"cmp"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

var (
	_ driver.Describer   = (*Store)(nil)
	_ driver.EventSource = (*Store)(nil)
)

// ReportEvents implements [driver.EventSource]. An event of a member may concern every lease.
func (q *Store) ReportEvents(report func(renewal.Event)) {
	for _, m := range q.members {
		if source, ok := m.store.(driver.EventSource); ok {
			source.ReportEvents(func(e renewal.Event) {
				e.Lane = renewal.AllLanes
				report(e)
			})
		}
	}
}

// Describe implements [driver.Describer].
//
// A TTL must be within the limits of all members. A lock lasts as long as its copy at the member
// that keeps it longest. If no TTL is within the limits of all members, Min is above Max, and every
// TTL is refused. The quorum can keep a lock if all members can. Replicas has the sums of all members.
func (q *Store) Describe() driver.Description {
	all := driver.Describe(q.members[0].store)
	all.Unordered, all.Saves, all.Addresses = 0, false, q.addresses // it is no Waiter and no Saver
	for _, m := range q.members[1:] {
		one := driver.Describe(m.store)
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
