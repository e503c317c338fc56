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
	"github.com/leasewheel/leasewheel/lock"
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

// count returns the number of subscribers of a channel.
func (w *wakeups) count(channel string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.channels[channel])
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

// A server that restarts without data is a fail-over, because its run_id has changed.
func TestARestartIsTheCauseOfALoss(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	renewed := make(chan struct{}, 1000)
	hooks := &lock.Hooks{BatchDone: func(renewal.BatchInfo) { renewed <- struct{}{} }}
	client, err := lock.New(newStore(t, srv.Client(t), nil), &lock.Options{
		Terms: lock.Terms{TTL: 5 * time.Second}, Hooks: hooks,
	})
	require.NoError(t, err)
	defer client.Close(t.Context())
	held, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	<-renewed
	srv.Kill()
	require.NoError(t, srv.Restart())
	_, err = client.Inspect(t.Context(), "other") // by a new connection; so the next renewal asks who answers
	require.NoError(t, err)
	<-held.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, held.Err(), &lost)
	assert.Equal(t, renewal.CauseFailover, lost.Cause(), lost.Seen())
}

// The holder of a fair lock renews its lease beyond the ends of all places. Whichever waiter asks
// next moves its place, and each place still ends one wait after the one before: a grant takes one
// wait from all of them.
func TestPlacesInAFairQueueEndOneAfterAnother(t *testing.T) {
	t.Parallel()
	const wait, waiters = time.Second, 5
	s, rdb := own(t, Options{Kind: KindFairLock, FairWait: wait})
	name := s.options.Prefix + "k"
	l, err := s.Acquire(t.Context(), request(ann, "k", driver.Exclusive))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	ends := func(owner string) time.Time {
		ms, err := rdb.ZScore(t.Context(), placesKey(name), owner).Result()
		require.NoError(t, err)
		return time.UnixMilli(int64(ms))
	}
	owner := func(i int) string { return rdb.LIndex(t.Context(), queueKey(name), int64(i)).Val() }
	for i := range waiters {
		wg.Go(func() {
			_, err := s.Wait(ctx, request(fmt.Sprint("waiter:", i), "k", driver.Exclusive), func() {})
			assert.ErrorIs(t, err, context.Canceled)
		})
		require.Eventually(t, func() bool { return rdb.LLen(t.Context(), queueKey(name)).Val() == int64(i)+1 }, 20*time.Second, time.Millisecond)
	}
	for _, asking := range []int{2, 0, 4, 1} {
		l.TTL += 10 * time.Minute
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out))
		require.Equal(t, renewal.Renewed, out[0])
		lease := time.Now().Add(l.TTL)
		channel := lockChannel(name) + ":" + owner(asking)
		require.Eventually(t, func() bool { // the waiter may not have subscribed yet
			require.NoError(t, rdb.Publish(t.Context(), channel, "0").Err())
			return ends(owner(asking)).After(lease.Add(-time.Minute))
		}, 20*time.Second, 10*time.Millisecond)
		for i := asking; i < waiters-1; i++ {
			assert.GreaterOrEqual(t, ends(owner(i+1)).Sub(ends(owner(i))), wait, "%d asked: places %d and %d", asking, i, i+1)
		}
	}
}

// A renewal of a JVM sets the expiry of the lock to its watchdog timeout, whatever other readers have.
func TestALongReaderIsRefusedBeforeAnyIO(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { assert.NoError(t, rdb.Close()) }()
	for want, o := range map[string]Options{
		"at most 30s (Options.WatchdogTTL), got 30.001s": {},
		"at most 10s (Options.WatchdogTTL), got 30.001s": {WatchdogTTL: 10 * time.Second},
	} {
		s := newStore(t, rdb, &o)
		r := request(ann, "the key", driver.Read)
		r.TTL = defaultWatchdogTTL + time.Millisecond
		_, acquired := s.Acquire(t.Context(), r)
		_, waited := s.Wait(t.Context(), r, func() {})
		renewed := s.Renew(t.Context(), []driver.Lease{{Request: r}}, make([]renewal.Outcome, 1))
		for _, err := range []error{acquired, waited, renewed} {
			require.ErrorIs(t, err, driver.ErrBadTTL)
			require.NotErrorIs(t, err, driver.ErrUnavailable)
			assert.ErrorContains(t, err, want)
		}
		r.TTL = s.options.WatchdogTTL
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, driver.ErrUnavailable, "it is sent")
		r.Mode, r.TTL = driver.Write, time.Hour
		_, err = s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, driver.ErrUnavailable, "a writer has no other holders")
	}
}

func TestAHeldReaderGetsNoLongLease(t *testing.T) {
	t.Parallel()
	s, rdb := own(t, Options{})
	name := s.options.Prefix + "k"
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close(context.Background())) }()
	_, err = c.With(lock.Terms{TTL: time.Hour}).RWMutex("k").RLock(t.Context())
	require.ErrorIs(t, err, lock.ErrBadTTL)
	require.NotErrorIs(t, err, lock.ErrUnavailable)

	h, err := c.RWMutex("k").RLock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, h.Renew(t.Context(), time.Hour), lock.ErrBadTTL)
	assert.True(t, h.Valid())
	require.NoError(t, h.Renew(t.Context(), defaultWatchdogTTL))
	assert.LessOrEqual(t, rdb.PTTL(t.Context(), name).Val(), defaultWatchdogTTL)
	require.NoError(t, h.Unlock(t.Context()))
}

// The client of a writer with a long lease may believe in that lease until its end, even if its later
// renewals were shorter.
func TestAWriterWithALongLeaseDoesNotBecomeAReader(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Hour, defaultWatchdogTTL} { // of the last renewal
		s, rdb := own(t, Options{})
		name := s.options.Prefix + "k"
		c, err := lock.New(s, nil)
		require.NoError(t, err)
		m := c.RWMutex("k")
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Renew(t.Context(), time.Hour))
		require.NoError(t, h.Renew(t.Context(), ttl))
		_, err = m.Downgrade(t.Context(), h)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		require.NotErrorIs(t, err, lock.ErrUnavailable)
		assert.ErrorContains(t, err, "Options.WatchdogTTL")
		require.NoError(t, c.Close(context.Background()))
		assert.Zero(t, rdb.Exists(t.Context(), name).Val(), "the lock is released")
	}
}
