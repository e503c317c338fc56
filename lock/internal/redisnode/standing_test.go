package redisnode

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/renewal"
)

// verifications returns a channel with the events that leases may be lost.
func verifications(cs *Calls) <-chan renewal.Event {
	events := make(chan renewal.Event, 100)
	cs.ReportEvents(func(e renewal.Event) {
		if e.Kind == renewal.EventVerify {
			events <- e
		}
	})
	return events
}

// The connection stands once the server answers, so a server that loads its data is asked again.
func TestTheStandingConnectionAwaitsTheServer(t *testing.T) {
	t.Parallel()
	var pings atomic.Int64
	w := &testredis.Wire{Answer: func([]string) string {
		if pings.Add(1) <= 3 {
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		return "+PONG\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	told := verifications(c.Calls)
	c.node.Hold(time.Minute)
	select {
	case e := <-told:
		assert.Equal(t, renewal.Event{Kind: renewal.EventVerify}, e)
	case <-time.After(soon):
		require.Fail(t, "no event")
	}
}

// There is no connection for leases that have ended, or if nobody gets the events.
func TestTheStandingConnectionEndsWithTheLeases(t *testing.T) {
	t.Parallel()
	w := &testredis.Wire{Answer: func([]string) string { return "+PONG\r\n" }}
	c := newClient(t, w.Client(t, redis.Options{}), Options{OnWatch: func(bool) {}})
	s := &c.node.standing
	stands := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.running
	}
	c.node.Hold(time.Minute)
	assert.False(t, stands(), "nobody gets the events")
	c.ReportEvents(func(renewal.Event) {})
	c.node.Hold(time.Millisecond)
	assert.True(t, stands())
	require.Eventually(t, func() bool { return !stands() && s.conn() == nil }, soon, time.Millisecond)
}

// The pauses of all nodes of a client together are at least redialGap.
func TestRedialsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := NewCalls()
		defer cs.Cancel()
		for i := range 5 {
			assert.Equal(t, time.Duration(i)*redialGap, cs.redialWait())
		}
		time.Sleep(time.Second)
		assert.Zero(t, cs.redialWait())
	})
}

// A request to a server that is not the master any more fails, and the next one dials.
func TestLeaveEndsRequests(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	var silent atomic.Bool
	w := &testredis.Wire{Answer: func([]string) string {
		if silent.CompareAndSwap(false, true) {
			close(asked)
			<-end
		}
		return "+OK\r\n"
	}}
	c := newClient(t, w.Client(t, redis.Options{}), Options{})
	failed := make(chan error, 1)
	go func() { failed <- sendBatch(context.Background(), c, "k", 1) }()
	<-asked
	c.node.Leave()
	select {
	case err := <-failed:
		require.Error(t, err)
	case <-time.After(soon):
		require.Fail(t, "the request waits for the old server")
	}
	require.NoError(t, sendBatch(t.Context(), c, "k", 1))
	c.node.Leave() // between two requests
	require.NoError(t, sendBatch(t.Context(), c, "k", 1))
}

// Behind a proxy with several servers another run_id means nothing.
func TestAProxyWithSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notices{calls: NewCalls(), addr: "a"}
		defer n.calls.Cancel()
		told := verifications(n.calls)
		links := int64(0)
		is := func(id string) int {
			links++
			n.identified(redis.NewStringResult("# Server\r\nrun_id:"+id+"\r\n", nil), links)
			return len(told)
		}
		assert.Equal(t, 0, is("a"))
		assert.Equal(t, 1, is("b"))
		time.Sleep(severalWithin)
		assert.Equal(t, 2, is("a"), "a fail-over and, much later, the way back")
		assert.Equal(t, 2, is("b"), "at once: there are several")
		time.Sleep(time.Hour)
		assert.Equal(t, 2, is("c"))
	})
}
