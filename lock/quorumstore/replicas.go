// This file is about the sums of ReplicaStats.

package quorumstore

import "github.com/leasewheel/leasewheel/lock/driver"

var _ driver.ReplicaCounter = (*Store)(nil)

// ReplicaStats implements [driver.ReplicaCounter] with the sums of all members.
func (q *Store) ReplicaStats() driver.ReplicaStats {
	var sum driver.ReplicaStats
	for _, m := range q.members {
		if counter, ok := m.store.(driver.ReplicaCounter); ok {
			s := counter.ReplicaStats()
			sum.Enough += s.Enough
			sum.TooFew += s.TooFew
			sum.Unanswered += s.Unanswered
		}
	}
	return sum
}
