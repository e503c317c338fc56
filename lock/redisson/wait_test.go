package redisson

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

// own returns a store with a prefix of its own on the shared server.
func own(t *testing.T, o Options) (*Store, *redis.Client) {
	rdb := shared.Server(t).Client(t)
	o.Prefix = rand.Text() + ":"
	return newStore(t, rdb, &o), rdb
}

// asleep waits until n calls wait at a store and the server has their subscription.
func asleep(t *testing.T, s *Store, rdb *redis.Client, channel string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		subscribed, err := rdb.PubSubNumSub(t.Context(), channel).Result()
		return err == nil && subscribed[channel] > 0 && s.wakeups.count(channel) == n
	}, 20*time.Second, time.Millisecond)
}

func TestOneMessageWakesOneWaiterOfAProcess(t *testing.T) {
	t.Parallel()
	s, rdb := own(t, Options{})
	name := s.options.Prefix + "k"
	l, err := s.Acquire(t.Context(), request(ann, "k", driver.Exclusive))
	require.NoError(t, err)
	const waiters = 5
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			r := request(fmt.Sprint("waiter:", i), "k", driver.Exclusive)
			l, err := s.Wait(t.Context(), r, func() {})
			if assert.NoError(t, err) {
				l.Request = r
				assert.NoError(t, s.Release(t.Context(), l))
			}
		})
	}
	asleep(t, s, rdb, lockChannel(name), waiters)
	start := time.Now()
	require.NoError(t, s.Release(t.Context(), l))
	wg.Wait()
	assert.Less(t, time.Since(start), maxSleep*2/3, "messages must wake all of them, one after the other")
}

func TestAWaiterThatLeavesPassesItsMessageOn(t *testing.T) {
	t.Parallel()
	s, _ := own(t, Options{})
	first, second, third := s.wakeups.join("c", 0, false, false), s.wakeups.join("c", 0, false, false), s.wakeups.join("c", 0, false, false)
	s.wakeups.deliver("c", "0")
	assert.Len(t, first.wake, 1)
	assert.Empty(t, second.wake)
	s.wakeups.leave(first, false)
	assert.Len(t, second.wake, 1, "the first has left without the lock")
	assert.Empty(t, third.wake)
	s.wakeups.leave(second, true)
	assert.Empty(t, third.wake, "the second has the lock")
	s.wakeups.wakeNext(&subscriber{channel: "c"})
	assert.Len(t, third.wake, 1)
	s.wakeups.leave(third, true)
	assert.Zero(t, s.wakeups.count("c"))
}

func TestTheMessage1WakesAllWaiters(t *testing.T) {
	t.Parallel()
	s, _ := own(t, Options{})
	a, b := s.wakeups.join("c", 0, false, false), s.wakeups.join("c", 0, false, false)
	s.wakeups.deliver("c", "1")
	assert.Len(t, a.wake, 1)
	assert.Len(t, b.wake, 1)
	s.wakeups.leave(a, true)
	s.wakeups.leave(b, true)
}

func TestWaitersOfAServerThatIsRestarted(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	s := newStore(t, rdb, nil)
	_, err := s.Acquire(t.Context(), request(ann, "k", driver.Exclusive))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), request(bob, "k", driver.Exclusive), func() {})
		done <- err
	}()
	asleep(t, s, rdb, lockChannel("k"), 1)
	server.Kill()
	require.NoError(t, server.Restart()) // without its data
	soon(t, done)
}

func TestAWaitThatGetsNoAnswer(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	proxy := testredis.StartProxy(t, server)
	s := newStore(t, proxy.Client(t), &Options{Timeout: 200 * time.Millisecond})
	proxy.Block()
	l, err := s.Wait(t.Context(), request(ann, "k", driver.Exclusive), func() {})
	require.Error(t, err)
	assert.True(t, l.Unanswered || errors.Is(err, driver.ErrNotSent))
	assert.NotContains(t, err.Error(), wireOwner(ann))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Wait(ctx, request(ann, "k", driver.Exclusive), func() {})
	require.ErrorIs(t, err, context.Canceled)
	proxy.Unblock()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { assert.NoError(t, rdb.Close()) }()
	for want, o := range map[string]Options{
		"redisson: Options.Kind must be KindLock, KindFencedLock or KindFairLock, got 3":    {Kind: 3},
		"redisson: Options.Sharding must be ShardingAuto, ShardingOn or ShardingOff, got 3": {Sharding: 3},
		"redisson: Options.FairWait must be at least 1ms, got -1ns":                         {FairWait: -1},
		"redisson: Options.WatchdogTTL must be at least 100ms, got 99ms":                    {WatchdogTTL: 99 * time.Millisecond},
		"redisson: Options.Timeout must be above 0, got -1ns":                               {Timeout: -1},
		"redisson: Options.PoolSize must be 1 to 10000, got 10001":                          {PoolSize: 10_001},
	} {
		_, err := New(rdb, &o)
		require.EqualError(t, err, want)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { assert.NoError(t, ring.Close()) }()
	_, err := New(ring, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = New(nil, nil)
	require.Error(t, err)
}

func TestTheZeroStoreAndClosedStores(t *testing.T) {
	t.Parallel()
	closed, _ := own(t, Options{})
	require.NoError(t, closed.Close())
	for want, s := range map[error]*Store{rediskit.ErrZeroStore: new(Store), driver.ErrStoreClosed: closed} {
		r := request(ann, "k", driver.Exclusive)
		_, acquired := s.Acquire(t.Context(), r)
		_, waited := s.Wait(t.Context(), r, func() {})
		_, inspected := s.Inspect(t.Context(), "k")
		for i, err := range []error{
			acquired, waited, inspected, s.ForceRelease(t.Context(), "k"), s.Release(t.Context(), driver.Lease{Request: r}),
			s.Renew(t.Context(), []driver.Lease{{Request: r}}, make([]renewal.Outcome, 1)),
		} {
			require.ErrorIs(t, err, want, i)
		}
	}
	assert.Empty(t, new(Store).Describe().Addresses)
	assert.Zero(t, new(Store).Lane(driver.Lease{}))
}
