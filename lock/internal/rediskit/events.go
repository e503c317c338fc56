// This file is about events made from the notices of connections.

package rediskit

import (
	"context"
	"sync"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

// events maps the notices of connections to events.
var events = [...]renewal.EventKind{
	redisnode.Unreachable:   renewal.EventUnreachable,
	redisnode.DeadConn:      renewal.EventDeadConn,
	redisnode.ServerChanged: renewal.EventServerChanged,
}

// ReportEvents reports the notices of a client as events, for the ReportEvents of a store. The
// client may be nil. Node.ID, which is 0 for a single server, must be the lane of the leases on a node.
func ReportEvents(c *redisconn.Client, report func(renewal.Event)) {
	if c == nil || report == nil {
		return
	}
	c.OnNotice(func(n redisnode.Notice, node int, detail string) {
		report(renewal.Event{Kind: events[n], Lane: node, Detail: detail})
	})
}

// NoMessages returns the function Unconfirmed of the subscriptions of a store, which reports an event
// once. report returns the function of ReportEvents, or nil.
func NoMessages(c *redisconn.Client, report func() func(renewal.Event)) func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			if f := report(); f != nil {
				f(renewal.Event{Kind: renewal.EventNoMessages, Lane: renewal.AllLanes, Detail: c.Explain(context.Background(), err).Error()})
			}
		})
	}
}
