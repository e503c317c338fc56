// ReportEvents.

package redisstore

import (
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// ReportEvents implements [driver.Store]. The store then asks each server for its run_id
// with the first renewals after a new connection, by INFO server. A user without the right to that
// command is refused once for each server, and [Store.Check] finds it. A fail-over is then noticed on
// a cluster, or if the server refuses writes because it is a replica now. While leases are held, it also keeps a connection to
// each server, and reports if that ends and can be made again.
func (s *Store) ReportEvents(report func(renewal.Event)) {
	s.report = report
	rediskit.ReportEvents(s.redis, report)
}
