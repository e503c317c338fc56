package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
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

// The connections of a store are in its events: when they were opened, when the server answered,
// and when they turned out to be dead.
func TestEventsOfConnections(t *testing.T) {
	t.Parallel()
	p := testredis.StartProxy(t, testredis.Start(t))
	rdb := p.Client(t)
	s := newStore(t, rdb, nil)
	events := eventsOf(s)
	l := acquire(t, s, request("k"))
	about := func(e renewal.Event) {
		assert.Equal(t, rdb.Options().Addr, e.Detail)
		assert.Zero(t, e.Lane)
	}
	about(awaitEvent(t, events, renewal.EventConnected))
	ready := awaitEvent(t, events, renewal.EventReady)
	about(ready)
	assert.Positive(t, ready.Took)
	renew(t, s, l)
	p.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_ = s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1)) // the connection of the renewal is dead
	about(awaitEvent(t, events, renewal.EventDeadConn))
}

// A new master of a slot is an event for the leases of the old one and for those of the new one.
func TestEventsOfAMovedSlot(t *testing.T) {
	t.Parallel()
	var master atomic.Pointer[string]
	serve := func(srv *testredis.Server) {
		addr := srv.Addr()
		master.Store(&addr)
	}
	before, after := testredis.Start(t), testredis.Start(t)
	serve(before)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: redisconn.SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	events := eventsOf(s)
	from := s.Lane(acquire(t, s, request("k")))
	serve(after)
	slot := redisconn.SlotOf(s.lockKey("k"))
	s.redis.Suspect(s.redis.Serving(slot))
	var lanes []int
	for range 2 {
		e := awaitEvent(t, events, renewal.EventMoved)
		assert.Contains(t, e.Detail, after.Addr()+": serves slot 0 and perhaps others, which "+before.Addr()+" has served")
		lanes = append(lanes, e.Lane)
	}
	require.Eventually(t, func() bool { return s.redis.Serving(slot).Addr() == after.Addr() }, soon, time.Millisecond)
	assert.Equal(t, []int{from, s.redis.Serving(slot).ID()}, lanes)
}

// A lock that is handed over to a waiter is an event for all leases.
func TestEventsOfASignal(t *testing.T) {
	t.Parallel()
	s := patient(t, shared.Server(t).Client(t))
	events := eventsOf(s)
	holder := acquire(t, s, requestFor("k", time.Hour))
	for range 20 { // the first signal may come before the subscription
		holder, _ = handed(t, s, holder, startWait(t.Context(), t, s, requestFor("k", time.Hour)))
		if lanes := signalled(events); len(lanes) > 0 {
			assert.Equal(t, []int{renewal.AllLanes}, lanes)
			return
		}
	}
	assert.Fail(t, "no signal")
}

// signalled returns the lanes of the signals that have arrived.
func signalled(events <-chan renewal.Event) (lanes []int) {
	for len(events) > 0 {
		if e := <-events; e.Kind == renewal.EventSignal {
			lanes = append(lanes, e.Lane)
		}
	}
	return lanes
}
