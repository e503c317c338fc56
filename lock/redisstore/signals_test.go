package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

func TestASilentSubscriptionIsNoticed(t *testing.T) {
	t.Parallel()
	var d dialer
	rdb := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Dialer: d.dial})
	defer rdb.Close()
	s := patient(t, rdb)
	holder := acquire(t, s, requestFor("k", time.Hour))
	done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
	require.Eventually(t, func() bool { return d.subscriptions() == 1 }, soon, time.Millisecond)
	time.Sleep(beat / 2) // it is confirmed, and asked again, and that is answered
	d.mute()
	l, took := handed(t, s, holder, done)
	assert.Less(t, took, 3*time.Second+soon/2, "two beats, and what a busy machine takes")
	assert.Greater(t, took, beat/2, "it was not heard")
	done = startWait(t.Context(), t, s, requestFor("k", time.Hour))
	_, took = handed(t, s, l, done)
	assert.Less(t, took, soon, "there is a new one")
	assert.GreaterOrEqual(t, d.subscriptions(), 2)
}

func TestASubscriptionThatBreaksIsMadeAnew(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := patient(t, rdb)
	holder := acquire(t, s, requestFor("k", time.Hour))
	for range 3 {
		done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
		require.NoError(t, rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
		var took time.Duration
		holder, took = handed(t, s, holder, done) // whether the signal is lost or not
		assert.Less(t, took, soon)
	}
}

func TestOneSubscriptionForAllWaiters(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	rdb := srv.Client(t)
	s := patient(t, rdb)
	s.signals.linger = 1
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
	assert.Contains(t, channels(), s.prefix+"client", "one channel for a client")
	cancelOther()
	require.Eventually(t, func() bool { return len(channels()) == 1 }, soon, time.Millisecond, "nobody of that client waits any more")
	connections := func() int { return countLines(rdb.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()) }
	require.Eventually(t, func() bool { return connections() == 1 }, soon, time.Millisecond, "one that a busy machine kept silent is made anew")

	cancel()
	for _, c := range calls {
		w := <-c
		require.ErrorIs(t, w.err, context.Canceled)
	}
	require.Eventually(t, func() bool { return len(channels()) == 0 }, soon, 10*time.Millisecond, "it ends when nobody waits")
	holder := acquire(t, s, requestFor("fresh", time.Hour))
	_, took := handed(t, s, holder, startWait(t.Context(), t, s, requestFor("fresh", time.Hour)))
	assert.Less(t, took, soon, "and begins again")
}

func TestAQuietSubscriptionIsPinged(t *testing.T) {
	t.Parallel()
	var d dialer
	rdb := redis.NewClient(&redis.Options{Addr: shared.Server(t).Addr(), Dialer: d.dial})
	defer rdb.Close()
	s := patient(t, rdb)
	acquire(t, s, requestFor("k", time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := startWait(ctx, t, s, requestFor("k", time.Hour))
	require.Eventually(t, func() bool { return d.pings.Load() >= 2 }, long, 10*time.Millisecond)
	cancel()
	<-done
}

func TestSignalsThatAreNone(t *testing.T) {
	s := newSignals(nil, "lw:")
	s.running = true
	e := s.join("a b:1")
	for _, payload := range []string{"", " ", "a b:1", "a b:1 ", "a b:1 x", "a b:1 -1", "a b:1 0", "a b:1 9007199254740992", "a:1 5", " 5"} {
		s.heard(payload)
		assert.Empty(t, e.wake, "%q", payload)
	}
	s.heard("a b:1 5")
	s.heard("a b:1 4")
	token, again := s.take(e)
	assert.EqualValues(t, 5, token, "the highest")
	assert.False(t, again)
}

// A node that has left the cluster answers pings for ever, and is told of no hand-over.
func TestASubscriptionLeavesANodeThatServesNoMore(t *testing.T) {
	t.Parallel()
	first, second := testredis.Start(t), shared.Server(t)
	var master atomic.Pointer[string]
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
	}})
	defer rdb.Close()
	s := patient(t, rdb)
	moveTo := func(srv *testredis.Server) {
		addr := srv.Addr()
		master.Store(&addr)
		require.NoError(t, s.cluster.read())
	}
	subscribed := func(srv *testredis.Server) {
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
		_, err := s.Wait(ctx, requestFor("k", time.Hour))
		done <- err
	}()
	subscribed(first)
	moveTo(second)
	subscribed(second)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// And whether it still serves is asked now and then, for no request may find it out.
func TestASubscriptionHasTheSlotsReadNowAndThen(t *testing.T) {
	t.Parallel()
	var read atomic.Int64
	addr := shared.Server(t).Addr()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		read.Add(1)
		return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	require.NoError(t, s.cluster.read())
	ps, stays := s.subscription(t.Context())
	defer ps.Close()
	for range linger {
		assert.EqualValues(t, 1, read.Load())
		assert.True(t, stays())
	}
	require.Eventually(t, func() bool { return read.Load() == 2 }, soon, time.Millisecond)
}
