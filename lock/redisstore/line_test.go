package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// The whole line on a server that fails: lock client, watchdog, either engine.

const (
	lineTTL = 2 * time.Second

	// wide is a margin that a busy machine does not eat up.
	wide = 900 * time.Millisecond
)

// line is a client with leases on a server of its own.
type line struct {
	server *testredis.Server
	rdb    *redis.Client
	client *lock.Client
	ttl    time.Duration
	held   []*lock.Held
}

// layout is how a line is to be.
type layout struct {
	engine  string        // "wheel" or "heap"
	ttl     time.Duration // default lineTTL
	margin  time.Duration
	leases  int  // default 300
	durable bool // the server keeps its data over a crash
}

func (o layout) withDefaults() layout {
	o.ttl = cmp.Or(o.ttl, lineTTL)
	o.leases = cmp.Or(o.leases, 300)
	return o
}

func onEngines(t *testing.T, o layout, test func(t *testing.T, l *line)) {
	t.Helper()
	for _, engine := range []string{"wheel", "heap"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := o
			o.engine = engine
			l := startLine(t, o)
			test(t, l)
		})
	}
}

// startLine starts a line on a server of its own.
func startLine(t *testing.T, o layout) *line {
	t.Helper()
	var args []string
	if o.durable {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	server := testredis.Start(t, args...)
	l := newLine(t, server.Client(t), o)
	l.server = server
	return l
}

// newLine starts a line on the server of a client.
func newLine(t *testing.T, rdb *redis.Client, o layout) *line {
	t.Helper()
	o = o.withDefaults()
	l := &line{rdb: rdb, ttl: o.ttl}
	store, err := New(rdb, nil)
	require.NoError(t, err)
	options := &lock.Options{Terms: lock.Terms{TTL: o.ttl}, Renewal: renewal.Options{Margin: o.margin}}
	if o.engine == "heap" {
		heap, err := heapqueue.NewScheduler(nil)
		require.NoError(t, err)
		t.Cleanup(func() { heap.Close() })
		options.Scheduler = heap
	}
	l.client, err = lock.New(store, options)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, l.client.Close(ctx))
	})
	for i := range o.leases {
		h, err := l.client.Mutex(fmt.Sprint("line:", i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	time.Sleep(o.ttl / 3) // renewals are under way
	return l
}

// all checks that every lease is held.
func (l *line) all(t *testing.T) {
	t.Helper()
	for _, h := range l.held {
		require.NoError(t, h.Err(), h.Key())
		require.True(t, h.Valid())
	}
}

// renewedAfter waits until every lease that is held has been renewed by a request
// that was sent after an instant.
func (l *line) renewedAfter(t *testing.T, at time.Time) {
	t.Helper()
	for _, h := range l.held {
		renewed := func() bool { return h.Err() != nil || h.Deadline().After(at.Add(l.ttl)) }
		require.Eventually(t, renewed, 3*l.ttl, 10*time.Millisecond, h.Key())
	}
}

// told waits until every holder has been told, and returns the reasons.
func (l *line) told(t *testing.T) map[renewal.Reason]int {
	t.Helper()
	reasons := map[renewal.Reason]int{}
	for _, h := range l.held {
		select {
		case <-h.Done():
		case <-time.After(5 * lineTTL):
			require.Fail(t, "never told", h.Key())
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.False(t, h.Valid())
		reasons[lost.Reason]++
	}
	return reasons
}
