// EventSource, which reports events that explain losses.

package driver

import "github.com/leasewheel/leasewheel/renewal"

// EventSource is implemented by a Store that notices that another server process answers, which explains the loss of a lease,
// that the server may have lost leases, so that the client verifies them, or that waiters get no messages. The client calls ReportEvents once, before any other method. A wrapper passes the call on.
type EventSource interface {
	// ReportEvents sets the function that gets the events. The Lane of an event is that of the
	// leases that it concerns, as the store's method Lane returns it, 0 without that method, or
	// renewal.AllLanes. The function returns at once, allocates nothing, and may be called from
	// anywhere.
	ReportEvents(report func(renewal.Event))
}
