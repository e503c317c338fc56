// This file is about the TTL limits that all members share.

package quorumstore

import (
	"cmp"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.TTLLimiter = (*Store)(nil)

// TTLLimits implements [driver.TTLLimiter]. A TTL must be within the limits of all members. A
// lock lasts as long as its copy at the member that keeps it longest. If no TTL is within the
// limits of all members, Min is above Max, and every TTL is refused.
func (q *Store) TTLLimits() driver.TTLLimits {
	all := driver.LimitsOf(q.members[0].store)
	for _, m := range q.members[1:] {
		all = jointLimits(all, driver.LimitsOf(m.store))
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
