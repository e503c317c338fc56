// This file is about the interface EventSource, which reports events that explain losses.

package driver

import "github.com/leasewheel/leasewheel/renewal"

// EventSource is implemented by a Store that notices what explains the loss of a lease: that
// another server process answers, that a server cannot be reached, and the like. The client
// calls ReportEvents once, before any other method, and passes the events to its watchdog, which keeps
// the latest. A wrapper passes the call on.
type EventSource interface {
	// ReportEvents sets the function that gets the events. The Lane of an event is that of the
	// leases that it concerns, as the store's method Lane returns it, 0 without that method, or
	// renewal.AllLanes. The function returns at once, allocates nothing, and may be called from
	// anywhere.
	ReportEvents(report func(renewal.Event))
}
