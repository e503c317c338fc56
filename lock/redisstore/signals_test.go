package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

func TestASilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	var d dialer
	rdb := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Dialer: d.dial})
	defer rdb.Close()
	s := patient(t, rdb)
	holder := acquire(t, s, requestFor("k", time.Hour))
	done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
	require.Eventually(t, func() bool { return d.subscriptions() == 1 }, soon, time.Millisecond)
	time.Sleep(pubsub.PingInterval / 2) // by then the subscription is confirmed, and the poll that follows is answered
	d.mute()
	l, took := handed(t, s, holder, done)
	assert.Less(t, took, 3*time.Second+soon/2, "two pings, and a reserve for a busy machine")
	assert.Greater(t, took, pubsub.PingInterval/2, "the muted connection delivered no signal")
	done = startWait(t.Context(), t, s, requestFor("k", time.Hour))
	_, took = handed(t, s, l, done)
	assert.Less(t, took, soon, "there is a new subscription")
	assert.GreaterOrEqual(t, d.subscriptions(), 2)
}

func TestABrokenSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := patient(t, rdb)
	holder := acquire(t, s, requestFor("k", time.Hour))
	for range 3 {
		done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
		require.NoError(t, rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		var took time.Duration
		holder, took = handed(t, s, holder, done) // the signal may be lost
		assert.Less(t, took, soon)
	}
}

func TestOneSubscriptionForAllWaiters(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := patient(t, rdb)
	s.subscription = pubsub.New(func(ctx context.Context) (*redis.PubSub, func() bool) { return s.redis.Subscribe(ctx, nil) }, signals{}, pubsub.Options{Prefix: s.prefix, IdleTimeout: pubsub.PingInterval})
	ctx, cancel := context.WithCancel(t.Context())
	var calls []<-chan waited
	for i := range 40 {
		key := fmt.Sprint("k", i)
		acquire(t, s, requestFor(key, time.Hour))
		r := requestFor(key, time.Hour)
		r.Owner = fmt.Sprint("client:", i)
		calls = append(calls, startWait(ctx, t, s, r))
	}
	stranger := requestFor("k0", time.Hour)
	other, cancelOther := context.WithCancel(t.Context())
	calls = append(calls, startWait(other, t, s, stranger))
	channels := func() []string { return rdb.PubSubChannels(t.Context(), "*").Val() }
	require.Eventually(t, func() bool { return len(channels()) == 2 }, soon, time.Millisecond)
	assert.Contains(t, channels(), s.prefix+"client", "a client has one channel")
	cancelOther()
	require.Eventually(t, func() bool { return len(channels()) == 1 }, soon, time.Millisecond, "no owner of that client waits")
	connections := func() int { return countLines(rdb.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()) }
	require.Eventually(t, func() bool { return connections() == 1 }, soon, time.Millisecond, "there is one connection, apart from one that is being replaced")

	cancel()
	for _, c := range calls {
		w := <-c
		require.ErrorIs(t, w.err, context.Canceled)
	}
	require.Eventually(t, func() bool { return len(channels()) == 0 }, soon, 10*time.Millisecond, "the subscription ends after the last waiter")
	holder := acquire(t, s, requestFor("fresh", time.Hour))
	_, took := handed(t, s, holder, startWait(t.Context(), t, s, requestFor("fresh", time.Hour)))
	assert.Less(t, took, soon, "a new waiter gets a new subscription")
}

// A node that has left the cluster still replies to pings, but receives no signals.
func TestASubscriptionLeavesANodeWithoutSlots(t *testing.T) {
	t.Parallel()
	first, second := testredis.Start(t), shared.Server(t)
	var master atomic.Pointer[string]
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: redisconn.SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
	}})
	defer rdb.Close()
	s := patient(t, rdb)
	slot := redisconn.SlotOf(s.lockKey("k"))
	moveTo := func(srv *testredis.Server) {
		addr := srv.Addr()
		master.Store(&addr)
		if n := s.redis.Serving(slot); n != nil {
			s.redis.Suspect(n)
		}
		require.Eventually(t, func() bool {
			n, err := s.redis.Master(t.Context(), slot)
			return err == nil && n.Addr() == addr
		}, long, time.Millisecond)
	}
	awaitSubscription := func(srv *testredis.Server) {
		rdb := srv.Client(t)
		require.Eventually(t, func() bool { return len(rdb.PubSubChannels(t.Context(), s.prefix+"*").Val()) == 1 }, long, 10*time.Millisecond)
	}
	for _, srv := range []*testredis.Server{second, first} {
		moveTo(srv)
		acquire(t, s, requestFor("k", time.Hour))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, requestFor("k", time.Hour), func() {})
		done <- err
	}()
	awaitSubscription(first)
	moveTo(second)
	awaitSubscription(second)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestInvalidSignalsAreIgnored(t *testing.T) {
	const owner = "a b:1"
	c := signals{}
	id, proof := c.ID(owner), proofOf(owner, "5")
	payloads := []string{"", " ", "  ", owner, owner + " 5", id, id + " 5", id + " 5 ", id + " 5 " + id, id + "  " + proof, id + " 5 " + proof + " ", id + " 5 " + proof[1:]}
	for _, token := range []string{"", "x", "-1", "+5", "05", "9007199254740992"} {
		payloads = append(payloads, message(owner, token))
	}
	payloads = append(payloads, message("a b:2", "5"), strings.Replace(message(owner, "4"), " 4 ", " 5 ", 1), strings.Replace(message(owner, "5"), " 5 ", " 0 ", 1))
	withState := messageWith("4 1 x", owner, "5")
	payloads = append(payloads, message(owner, "5")+" 4 1 x", message(owner, "5")+" ", withState+"y", strings.Replace(withState, " 4 ", " 3 ", 1),
		strings.TrimSuffix(withState, " 4 1 x"), strings.Replace(withState, " 5 ", " 6 ", 1), messageWith("4 1 x", "a b:2", "5"))
	for _, payload := range payloads {
		to, _, ok := c.Parse(payload)
		assert.False(t, ok && to == id && c.Verify(owner, payload), "%q", payload)
	}
	for token, want := range map[string]uint64{"5": 5, "0": 0} {
		to, got, ok := c.Parse(message(owner, token))
		assert.True(t, ok)
		assert.Equal(t, id, to)
		assert.Equal(t, want, got)
		assert.True(t, c.Verify(owner, message(owner, token)))
		assert.Nil(t, savedIn(message(owner, token)))
	}
	for state, want := range map[string]*driver.Saved{
		"": {}, "4 1 ": {Token: 4, Data: []byte{}}, "4 1  a b\n": {Token: 4, Data: []byte(" a b\n")}, "4 x": nil, "x 1 a": nil,
	} {
		text := messageWith(state, owner, "5")
		to, token, ok := c.Parse(text)
		assert.True(t, ok && to == id && token == 5 && c.Verify(owner, text), "%q", state)
		assert.Equal(t, want, savedIn(text), "%q", state)
	}
}

// dialer makes connections. It can mute those with a subscription: they stay open and still
// send, but receive nothing.
type dialer struct {
	mu   sync.Mutex // guards subs
	subs []*mutable
}

type mutable struct {
	net.Conn
	dialer *dialer
	known  bool // as a subscription; only the writer uses it
	muted  atomic.Bool
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &mutable{Conn: conn, dialer: d}, nil
}

// Write implements net.Conn.
func (c *mutable) Write(p []byte) (int, error) {
	if !c.known && bytes.Contains(p, []byte("subscribe")) {
		c.known = true
		c.dialer.mu.Lock()
		c.dialer.subs = append(c.dialer.subs, c)
		c.dialer.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *mutable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.muted.Load() {
			return n, err
		}
	}
}

// mute mutes all subscriptions that exist.
func (d *dialer) mute() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.subs {
		c.muted.Store(true)
	}
}

func (d *dialer) subscriptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.subs)
}

func countLines(s string) int { return strings.Count(s, "addr=") - strings.Count(s, "laddr=") }
