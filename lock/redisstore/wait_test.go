package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/renewal"
)

// waited is the result of a call of Wait.
type waited struct {
	driver.Lease
	err error
	at  time.Time
}

// startWait calls Wait on a goroutine and returns when the owner is in the queue.
func startWait(ctx context.Context, t testing.TB, s *Store, r driver.Request) <-chan waited {
	t.Helper()
	done := make(chan waited, 1)
	go func() {
		l, err := s.Wait(ctx, r, func() {})
		done <- waited{l, err, time.Now()}
	}()
	looker := redis.NewClient(&redis.Options{Addr: s.Describe().Addresses[0]})
	defer looker.Close()
	k := s.keys(r.Key, r.Owner)
	require.Eventually(t, func() bool {
		return looker.ZScore(context.Background(), k.places, wireOwner(&r)).Err() == nil
	}, soon, time.Millisecond)
	return done
}

// startQuietWait is startWait, and returns when both requests of the waiter are answered: it joins the
// queue, and polls when it is subscribed. The store must be patient. calls counts its requests, and nobody
// else makes the server forget scripts, which would cost more.
func startQuietWait(ctx context.Context, t testing.TB, s *Store, calls *testredis.Counter, r driver.Request) <-chan waited {
	t.Helper()
	script := acquireScript
	if r.Mode != driver.Exclusive {
		script = sharedAcquireScript
	}
	requests := calls.Returned(script.Digest()) + 2
	done := startWait(ctx, t, s, r)
	require.Eventually(t, func() bool { return calls.Returned(script.Digest()) == requests }, long, time.Millisecond)
	return done
}

// handed releases a lock. It returns the lease of the waiter, and the time until Wait
// returned.
func handed(t testing.TB, s *Store, l driver.Lease, done <-chan waited) (driver.Lease, time.Duration) {
	t.Helper()
	start := time.Now()
	require.NoError(t, s.Release(t.Context(), l))
	select {
	case w := <-done:
		require.NoError(t, w.err)
		assert.Greater(t, w.Token, l.Token)
		return w.Lease, w.at.Sub(start)
	case <-time.After(long):
		require.Fail(t, "the lock is not handed over")
		return driver.Lease{}, 0
	}
}

func requestFor(key string, ttl time.Duration) driver.Request {
	r := request(key)
	r.TTL = ttl
	return r
}

// patient returns a store whose waiters poll every 18 minutes.
func patient(t testing.TB, rdb redis.UniversalClient) *Store {
	return newStore(t, rdb, &Options{Prefix: rand.Text() + ":", Place: time.Hour})
}

func TestAHandedOverLockLastsForTheRestOfThePlace(t *testing.T) {
	s, rdb := sharedStore(t)
	holder := acquire(t, s, request("k"))
	r := request("k")
	done := startWait(t.Context(), t, s, r)
	time.Sleep(100 * time.Millisecond)
	l, _ := handed(t, s, holder, done)
	onServer := rdb.PTTL(t.Context(), s.lockKey("k")).Val()
	around(t, 10*time.Second, onServer)
	assert.Less(t, time.Until(l.Sent.Add(ttl30)), onServer+time.Millisecond, "the lease never outlasts the key on the server")
	around(t, 10*time.Second, time.Until(l.Sent.Add(ttl30)))
}

func TestPlaceLengths(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), nil)
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 6 * time.Second: 3 * time.Second, 12 * time.Second: 4 * time.Second, ttl30: 10 * time.Second,
		time.Minute: 10 * time.Second, time.Hour: 10 * time.Second,
	} {
		assert.Equal(t, want, s.place(ttl), "%v", ttl)
	}
	s.placeFor = 5 * time.Second
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, ttl30: 5 * time.Second, time.Hour: 10 * time.Second,
	} {
		assert.Equal(t, want, s.place(ttl), "%v", ttl)
	}
}

func TestAWaiterSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), nil)
	acquire(t, s, request("k"))
	done := startWait(t.Context(), t, s, request("k"))
	require.NoError(t, srv.Restart())
	select {
	case w := <-done: // the server has lost the lock
		require.NoError(t, w.err)
	case <-time.After(long):
		require.Fail(t, "Wait does not return")
	}
}

func TestWaitEndsOnAHangingServer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), &Options{Place: time.Second, Timeout: time.Second})
	acquire(t, s, requestFor("k", 5*time.Second))
	queued := startWait(t.Context(), t, s, requestFor("k", 5*time.Second))
	require.NoError(t, srv.Stop())
	fresh := make(chan waited, 1)
	go func() {
		l, err := s.Wait(t.Context(), request("other"), func() {})
		fresh <- waited{l, err, time.Now()}
	}()
	for i, done := range []<-chan waited{queued, fresh} {
		w := <-done
		require.ErrorContains(t, w.err, "no answer within 1s")
		require.NotErrorIs(t, w.err, context.DeadlineExceeded)
		if i == 0 { // the other one may have had no connection
			assert.True(t, w.Unanswered)
		}
	}
	require.NoError(t, srv.Cont())
}

func TestACancelledWaitReportsUnansweredPolls(t *testing.T) {
	t.Parallel()
	var calls testredis.Counter
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, &Options{Place: time.Hour, Instrument: calls.Attach})
	holder := acquire(t, s, request("k"))
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := request("k")
	done := startQuietWait(ctx, t, s, &calls, r)
	cancel(cause)
	w := <-done
	require.ErrorIs(t, w.err, cause)
	require.ErrorContains(t, w.err, "redisstore: wait: ")
	secretless(t, w.err, r.Owner)
	assert.False(t, w.Unanswered)
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), driver.ErrNotHeld)
	require.NoError(t, s.Release(t.Context(), holder))
	assert.Len(t, keysOf(t, rdb, s.prefix), 1, "only the last token remains")
}

// The polls end with ctx. Their errors may come first, and say nothing about the server, which has left a poll
// without an answer for long.
func TestAWaitThatEndsWithoutAnAnswerIsUnavailable(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), nil)
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for range 50 {
		sent := time.Now().Add(-time.Second)
		p := &poll{sent, func() {}}
		w := &waiter{
			store: s, request: request("k"), place: time.Second / 2, listener: pubsub.NewListener("a:1", "a"), onQueued: func() {},
			state: waitQueued, timer: time.NewTimer(time.Hour), polls: []*poll{p}, answers: make(chan reply, 1), lastAnswer: sent,
		}
		w.answers <- reply{poll: p, sent: sent, err: cause}
		w.queue(ctx)
		require.ErrorIs(t, w.err, driver.ErrUnavailable)
		require.ErrorIs(t, w.err, cause)
		require.True(t, w.unanswered)
	}
}

// A waiter accepts a signal only under these conditions, and counts its lease from these
// moments. Otherwise two owners could hold a lock at the same time.
func TestSignalsAreBelievedOnlyIfCurrent(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), nil)
	const place = 10 * time.Second
	now := time.Now()
	queued := func(sent time.Time, token uint64) reply {
		return reply{acquired: acquired{verdict: taken, token: token}, sent: sent}
	}
	lost := func(sent time.Time) reply { return reply{sent: sent, err: errors.New("no answer")} }
	for i, tc := range []struct {
		name    string
		answers []reply
		signal  uint64
		sent    time.Time // the start of the place; zero if the waiter ignores the signal
	}{
		{name: "before any answer", signal: 7, sent: now.Add(-4 * time.Second)},
		{name: "after the answer", answers: []reply{queued(now.Add(-3*time.Second), 6)}, signal: 7, sent: now.Add(-3 * time.Second)},
		{name: "older than the answer", answers: []reply{queued(now.Add(-3*time.Second), 7)}, signal: 7},
		{name: "older than an answer before", answers: []reply{queued(now.Add(-3*time.Second), 7), queued(now.Add(-time.Second), 5)}, signal: 6},
		{
			name:    "after a request that was not answered",
			answers: []reply{queued(now.Add(-3*time.Second), 6), lost(now.Add(-time.Second))}, signal: 7, sent: now.Add(-3 * time.Second),
		},
		{
			name:    "after an answer that was overtaken by a later one",
			answers: []reply{queued(now.Add(-time.Second), 6), queued(now.Add(-3*time.Second), 5)}, signal: 7, sent: now.Add(-time.Second),
		},
		{name: "older than an answer that was overtaken", answers: []reply{queued(now.Add(-time.Second), 6), queued(now.Add(-3*time.Second), 7)}, signal: 7},
		{name: "in the second half of the place", answers: []reply{queued(now.Add(-5*time.Second), 6)}, signal: 7},
		{name: "forced release", signal: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begun := now.Add(-4 * time.Second)
			if len(tc.answers) > 0 {
				begun = now.Add(-7 * time.Second)
			}
			w := &waiter{
				store: s, request: request("k"), place: place, lastPollSent: begun,
				listener: pubsub.NewListener(fmt.Sprint("o:", i), "o"), answers: make(chan reply, 1), lastAnswer: now, state: waitQueued, polls: []*poll{{}},
			}
			for _, r := range tc.answers {
				w.onAnswer(r)
				require.Equal(t, waitQueued, w.state)
			}
			w.onSignal(t.Context(), tc.signal, "", false)
			require.NoError(t, w.err)
			if tc.sent.IsZero() {
				assert.Equal(t, waitQueued, w.state)
				assert.Equal(t, tc.signal > w.maxToken, w.pollAgain, "a poll follows a new token")
				return
			}
			require.Equal(t, waitGranted, w.state)
			assert.Equal(t, tc.signal, w.lease.Token)
			assert.Equal(t, tc.sent.Add(place), w.lease.Sent.Add(ttl30))
		})
	}
}

// A waiter that may have missed a signal polls again after the answer to the unanswered poll.
func TestAPollFollowsTheUnansweredPoll(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	r := requestFor("k", time.Hour)
	p := new(poll)
	w := &waiter{
		store: s, request: r, place: time.Hour, lastPollSent: time.Now(), listener: pubsub.NewListener(r.Owner, ""), answers: make(chan reply, 1),
		lastAnswer: time.Now(), state: waitQueued, polls: []*poll{p},
	}
	s.subscription.Listen(w.listener) // reports that a signal may have been missed
	defer s.subscription.Leave(w.listener)
	require.Eventually(t, func() bool { return len(w.listener.Wake()) == 1 }, soon, time.Millisecond)
	w.setTimer(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	time.AfterFunc(50*time.Millisecond, func() {
		w.answers <- reply{acquired: acquired{verdict: taken, token: 5}, poll: p, sent: time.Now()}
	})
	w.queue(ctx)
	require.NoError(t, w.err, "the lock is free")
	assert.NotZero(t, w.lease.Token)
}

// A waiter that got its lock while a poll was unanswered leaves no tombstone. The first
// waiter of a client often does that.
func TestAHandOverLeavesNoTombstone(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	for i := range 24 {
		key := fmt.Sprint("k", i)
		s := newStore(t, rdb, nil)
		holder := acquire(t, s, requestFor(key, ttl30))
		fresh, err := New(rdb, &Options{Prefix: s.prefix, Timeout: long})
		require.NoError(t, err)
		c, err := lock.New(fresh, nil)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			h, err := c.Mutex(key).Lock(t.Context())
			if err == nil {
				err = h.Unlock(t.Context())
			}
			got <- err
		}()
		require.Eventually(t, func() bool { return rdb.LLen(t.Context(), s.keys(key, "").queue).Val() == 1 }, soon, 100*time.Microsecond)
		time.Sleep(time.Duration(i%6) * 100 * time.Microsecond) // approximately when the subscription is confirmed
		require.NoError(t, s.Release(t.Context(), holder))
		require.NoError(t, <-got)
		require.NoError(t, c.Close(context.Background()))
	}
	assert.LessOrEqual(t, len(rdb.Keys(t.Context(), "*:x:*").Val()), 2, "a busy machine may answer a poll later than the waiter waits for it")
}

// A margin may be as long as a place in the queue, or longer. A lock that is handed over then
// has no valid time left until the client acquires it again.
func TestAHandOverWithALongMargin(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*lock.Options{
		"TTL 60 s, margin 9.5 s":   {Terms: lock.Terms{TTL: time.Minute}, Renewal: renewal.Policy{Margin: 9500 * time.Millisecond}},
		"TTL 10 min, margin 1 min": {Terms: lock.Terms{TTL: 10 * time.Minute}, Renewal: renewal.Policy{Margin: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := &Options{Prefix: t.Name() + ":"}
			locks := map[string]func(c *lock.Client) lock.Locker{
				"mutex":     func(c *lock.Client) lock.Locker { return c.Mutex("mutex") },
				"writer":    func(c *lock.Client) lock.Locker { return c.RWMutex("writer") },
				"semaphore": func(c *lock.Client) lock.Locker { return c.Semaphore("semaphore", 1) },
				"batch":     func(c *lock.Client) lock.Locker { return c.Batch("batch", "a", "b") },
			}
			const clients, rounds = 3, 5
			var wg sync.WaitGroup
			for range clients {
				c, err := lock.New(newStore(t, shared.Server(t).Client(t), prefix), o)
				require.NoError(t, err)
				wg.Go(func() {
					defer func() { assert.NoError(t, c.Close(context.Background())) }()
					for range rounds {
						for kind, of := range locks {
							h, err := of(c).Lock(t.Context())
							if !assert.NoError(t, err, kind) {
								return
							}
							assert.Greater(t, time.Until(h.Deadline()), o.TTL/2, kind)
							time.Sleep(5 * time.Millisecond) // so that other clients enter the queue
							assert.NoError(t, h.Unlock(t.Context()), kind)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// A queued waiter whose polls the server refuses tells why.
func TestAWaiterTellsWhyTheServerRefusesIt(t *testing.T) {
	t.Parallel()
	for reason, refuse := range map[string][]any{
		"NOPERM":     {"acl", "setuser", "default", "-evalsha", "-eval"},
		"NOREPLICAS": {"config", "set", "min-replicas-to-write", "1"},
		"READONLY":   {"replicaof", "127.0.0.1", "1"},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			rdb := testredis.Start(t).Client(t)
			if reason == "NOPERM" && !hasUsers(t, rdb) || reason == "NOREPLICAS" && !testredis.Since(7, 0) {
				t.Skip("this server refuses no script for that")
			}
			s := newStore(t, rdb, &Options{Place: 300 * time.Millisecond, Timeout: soon})
			r := driver.Request{Key: "k", Owner: "c:1", TTL: 3 * time.Second}
			_, err := s.Acquire(t.Context(), r)
			require.NoError(t, err)
			r.Owner = "c:2"
			done := make(chan error, 1)
			go func() {
				_, err := s.Wait(t.Context(), r, func() {})
				done <- err
			}()
			require.Eventually(t, func() bool {
				info, err := s.Inspect(t.Context(), "k")
				return err == nil && info.Waiting == 1
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, rdb.Do(t.Context(), refuse...).Err())
			assert.ErrorContains(t, <-done, reason)
		})
	}
}

// A dead waiter delays others for 10 s at most, whatever the TTL. So its place is too short for
// the margin of a holder with a long TTL, and a lock that is handed over gets its full TTL first.
func TestL2AHandedOverLockWithALongTTL(t *testing.T) {
	s, rdb := sharedStore(t)
	r := driver.Request{Key: "k", Owner: "c:1", TTL: 10 * time.Minute}
	assert.LessOrEqual(t, s.place(r.TTL), 10*time.Second)
	holder, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	r.Owner = "c:2"
	done := make(chan driver.Lease, 1)
	go func() {
		l, err := s.Wait(t.Context(), r, func() {})
		assert.NoError(t, err)
		done <- l
	}()
	require.Eventually(t, func() bool {
		info, err := s.Inspect(t.Context(), "k")
		return err == nil && info.Waiting == 1
	}, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, s.Release(t.Context(), holder))
	l := <-done
	assert.Greater(t, time.Until(l.Sent.Add(r.TTL)), r.TTL/2)
	assert.Greater(t, rdb.PTTL(t.Context(), s.lockKey("k")).Val(), r.TTL/2)
}

// lossy is a connection that drops one script without an error when lose is set.
type lossy struct {
	net.Conn
	lose *atomic.Bool
}

// Write implements net.Conn.
func (c lossy) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("evalsha")) && c.lose.CompareAndSwap(true, false) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// L1: a waiter polls three times in the length of a place, so it keeps the place if one poll
// is lost on a connection that stays open.
func TestALostPollKeepsThePlace(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	prefix := rand.Text() + ":"
	rdb := redis.NewClient(&redis.Options{
		Addr: shared.Server(t).Addr(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return lossy{conn, &lose}, err
		},
	})
	defer rdb.Close()
	other := newStore(t, shared.Server(t).Client(t), &Options{Prefix: prefix})
	holder := acquire(t, other, requestFor("k", time.Hour))
	s := newStore(t, rdb, &Options{Prefix: prefix, Place: 2 * time.Second})
	done := startWait(t.Context(), t, s, requestFor("k", 20*time.Second))
	lose.Store(true)
	time.Sleep(2500 * time.Millisecond) // longer than a place
	require.False(t, lose.Load(), "a poll was lost")
	_, took := handed(t, other, holder, done)
	assert.Less(t, took, soon)
}

// A granted waiter sends no more polls, even if a signal came before the answer to its poll.
func TestNoPollFollowsAGrant(t *testing.T) {
	t.Parallel()
	s, w := wired(t, "")
	r := requestFor("k", time.Hour)
	p := new(poll)
	call := &waiter{
		store: s, request: r, place: time.Hour, lastPollSent: time.Now(), listener: pubsub.NewListener(r.Owner, ""), answers: make(chan reply, 1),
		state: waitQueued, polls: []*poll{p}, pollAgain: true,
	}
	call.setTimer(time.Hour)
	call.answers <- reply{acquired: acquired{verdict: granted, token: 5}, poll: p, sent: time.Now()}
	call.queue(t.Context())
	require.NoError(t, call.err)
	assert.EqualValues(t, 5, call.lease.Token)
	assert.False(t, call.unanswered, "the release needs no tombstone")
	require.NoError(t, s.Close()) // waits for all requests
	assert.Zero(t, w.Evals.Load())
}
