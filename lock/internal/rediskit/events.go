// Events of the connections of a store.

package rediskit

import (
	"context"
	"sync"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

// ReportEvents is the ReportEvents of a store whose client is c, which may be nil. Node.ID, which is 0 for a single server, must
// be the lane of the leases on a node.
func ReportEvents(c *redisconn.Client, report func(renewal.Event)) {
	if c != nil && report != nil {
		c.ReportEvents(report)
	}
}

// NoMessages returns the function Unconfirmed of the subscriptions of a store, which reports an event once.
func NoMessages(c *redisconn.Client) func(error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			c.Report(renewal.Event{Kind: renewal.EventNoMessages, Lane: renewal.AllLanes, Detail: c.Explain(context.Background(), err).Error()})
		})
	}
}
