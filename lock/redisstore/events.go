package redisstore

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

var _ driver.EventSource = (*Store)(nil)

// events maps the notices of connections to events.
var events = [...]renewal.EventKind{
	redisconn.Connected:     renewal.EventConnected,
	redisconn.Ready:         renewal.EventReady,
	redisconn.Unreachable:   renewal.EventUnreachable,
	redisconn.DeadConn:      renewal.EventDeadConn,
	redisconn.ServerChanged: renewal.EventServerChanged,
	redisconn.Moved:         renewal.EventMoved,
}

// ReportEvents implements [driver.EventSource]. The store then asks each server for its run_id
// with the first renewals after a new connection, by INFO server. A user without the right to that
// command is refused once for each server, and [Store.Check] finds it. Fail-overs are then noticed on
// a cluster only.
func (s *Store) ReportEvents(report func(renewal.Event)) {
	if s.redis == nil || report == nil {
		return
	}
	s.report = report
	s.redis.OnNotice(func(n redisconn.Notice, node int, took time.Duration, detail string) {
		if !s.redis.IsCluster() {
			node = 0 // as Lane
		}
		report(renewal.Event{Kind: events[n], Lane: node, Took: took, Detail: detail})
	})
}

// noteSignal reports that a lock was handed over to a waiter.
func (s *Store) noteSignal() {
	if s.report != nil {
		s.report(renewal.Event{Kind: renewal.EventSignal, Lane: renewal.AllLanes})
	}
}
