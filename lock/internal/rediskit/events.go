// Events made from the notices of connections.

package rediskit

import (
	"context"
	"sync"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

// ReportEvents reports to report that another server process answers, and that leases may be lost, for the ReportEvents of a
// store. The client may be nil. Node.ID, which is 0 for a single server, must be the lane of the leases on a node.
func ReportEvents(c *redisconn.Client, report func(renewal.Event)) {
	if c == nil || report == nil {
		return
	}
	c.OnNotice(func(n redisnode.Notice) {
		if n.Detail != "" {
			report(renewal.Event{Kind: renewal.EventServerChanged, Lane: n.Node, Detail: n.Detail})
		}
		if n.Verify {
			report(renewal.Event{Kind: renewal.EventVerify, Lane: n.Node, Detail: n.Detail})
		}
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
