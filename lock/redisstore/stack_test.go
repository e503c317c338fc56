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

// Tests of the whole stack on a server that fails: lock client, watchdog and either engine.

const (
	stackTTL = 2 * time.Second

	// wide is a margin that suffices on a busy machine.
	wide = 900 * time.Millisecond
)

// stack is a lock client with leases on a server of its own.
type stack struct {
	server *testredis.Server
	rdb    *redis.Client
	client *lock.Client
	ttl    time.Duration
	held   []*lock.Held
}

// stackOptions configure a stack.
type stackOptions struct {
	engine  string        // "wheel" or "heap"
	ttl     time.Duration // default lineTTL
	margin  time.Duration
	leases  int  // default 120
	durable bool // the server keeps its data when it crashes
}

func (o stackOptions) withDefaults() stackOptions {
	o.ttl = cmp.Or(o.ttl, stackTTL)
	o.leases = cmp.Or(o.leases, 120)
	return o
}

func onEngines(t *testing.T, o stackOptions, test func(t *testing.T, l *stack)) {
	t.Helper()
	for _, engine := range []string{"wheel", "heap"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := o
			o.engine = engine
			l := startStack(t, o)
			test(t, l)
		})
	}
}

// startStack starts a server and a stack on it.
func startStack(t *testing.T, o stackOptions) *stack {
	t.Helper()
	var args []string
	if o.durable {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	server := testredis.Start(t, args...)
	l := newStack(t, server.Client(t), o)
	l.server = server
	return l
}

// newStack starts a stack on the server of a client.
func newStack(t *testing.T, rdb *redis.Client, o stackOptions) *stack {
	t.Helper()
	o = o.withDefaults()
	l := &stack{rdb: rdb, ttl: o.ttl}
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
		h, err := l.client.Mutex(fmt.Sprint("stack:", i)).Lock(t.Context())
		require.NoError(t, err)
		l.held = append(l.held, h)
	}
	time.Sleep(o.ttl / 3) // renewals have begun
	return l
}

// assertHeld checks that every lease is held.
func (l *stack) assertHeld(t *testing.T) {
	t.Helper()
	for _, h := range l.held {
		require.NoError(t, h.Err(), h.Key())
		require.True(t, h.Valid())
	}
}

// renewedAfter waits until every held lease has been renewed by a request that was sent
// after at.
func (l *stack) renewedAfter(t *testing.T, at time.Time) {
	t.Helper()
	for _, h := range l.held {
		renewed := func() bool { return h.Err() != nil || h.Deadline().After(at.Add(l.ttl)) }
		require.Eventually(t, renewed, 3*l.ttl, 10*time.Millisecond, h.Key())
	}
}

// waitLost waits until every holder has learnt of its loss, and counts the reasons.
func (l *stack) waitLost(t *testing.T) map[renewal.Reason]int {
	t.Helper()
	reasons := map[renewal.Reason]int{}
	for _, h := range l.held {
		select {
		case <-h.Done():
		case <-time.After(5 * stackTTL):
			require.Fail(t, "no loss is reported", h.Key())
		}
		var lost *renewal.LostError
		require.ErrorAs(t, h.Err(), &lost)
		require.False(t, h.Valid())
		reasons[lost.Reason]++
	}
	return reasons
}
