package rediskit

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

// events maps the notices of connections to events.
var events = [...]renewal.EventKind{
	redisconn.Connected:     renewal.EventConnected,
	redisconn.Ready:         renewal.EventReady,
	redisconn.Unreachable:   renewal.EventUnreachable,
	redisconn.DeadConn:      renewal.EventDeadConn,
	redisconn.ServerChanged: renewal.EventServerChanged,
	redisconn.Moved:         renewal.EventMoved,
}

// ReportEvents reports the notices of a client as events, for the ReportEvents of a store. The
// client may be nil. Node.ID, which is 0 for a single server, must be the lane of the leases on a node.
func ReportEvents(c *redisconn.Client, report func(renewal.Event)) {
	if c == nil || report == nil {
		return
	}
	c.OnNotice(func(n redisconn.Notice, node int, took time.Duration, detail string) {
		report(renewal.Event{Kind: events[n], Lane: node, Took: took, Detail: detail})
	})
}
