package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// eventsOf returns the events of a store from now on.
func eventsOf(s *Store) <-chan renewal.Event {
	events := make(chan renewal.Event, 1000)
	s.ReportEvents(func(e renewal.Event) { events <- e })
	return events
}

// awaitEvent returns the next event of that kind.
func awaitEvent(t *testing.T, events <-chan renewal.Event, kind renewal.EventKind) renewal.Event {
	t.Helper()
	limit := time.After(long)
	for {
		select {
		case e := <-events:
			if e.Kind == kind {
				return e
			}
		case <-limit:
			require.Fail(t, "no event", kind.String())
		}
	}
}

// A connection that turns out to be dead is an event.
func TestEventsOfADeadConnection(t *testing.T) {
	t.Parallel()
	p := testredis.StartProxy(t, testredis.Start(t))
	rdb := p.Client(t)
	s := newStore(t, rdb, nil)
	events := eventsOf(s)
	l := acquire(t, s, request("k"))
	renew(t, s, l)
	p.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_ = s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) // the connection of the renewal is dead
	e := awaitEvent(t, events, renewal.EventDeadConn)
	assert.Equal(t, rdb.Options().Addr, e.Detail)
	assert.Zero(t, e.Lane)
}
