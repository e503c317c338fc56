package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	"github.com/leasewheel/leasewheel/lock/locktest"
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

func TestASignalHandsTheLockOver(t *testing.T) {
	t.Parallel()
	var calls testredis.Counter
	s := newStore(t, testredis.Start(t).Client(t), &Options{Place: time.Hour, Instrument: calls.Attach})
	holder := acquire(t, s, requestFor("k", time.Hour))
	for range 5 {
		start := time.Now()
		done := startQuietWait(t.Context(), t, s, &calls, requestFor("k", time.Hour))
		released := time.Now()
		var took time.Duration
		holder, took = handed(t, s, holder, done)
		assert.Less(t, took, soon, "a signal, not a poll, granted the lock")
		assert.False(t, holder.Unanswered)
		assert.False(t, holder.Sent.Before(start), "the place lasts for a whole TTL")
		assert.False(t, holder.Sent.After(released), "the lease begins with the request, not with the signal")
	}
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

func TestPollsKeepThePlace(t *testing.T) {
	t.Parallel()
	const place = time.Second
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, &Options{Prefix: rand.Text() + ":", Place: place})
	ttl := 3 * time.Second
	holder := acquire(t, s, requestFor("k", time.Minute))
	requests := []driver.Request{requestFor("k", ttl), requestFor("k", ttl)}
	first, second := startWait(t.Context(), t, s, requests[0]), startWait(t.Context(), t, s, requests[1])
	time.Sleep(7 * place / 2)
	for _, r := range requests {
		ends := rdb.ZScore(t.Context(), s.keys(r.Key, r.Owner).places, r.Owner).Val()
		assert.Greater(t, int64(ends), time.Now().UnixMilli())
	}
	holder, took := handed(t, s, holder, first)
	assert.Less(t, took, soon)
	handed(t, s, holder, second)
}

// Polls alone hand a lock over if there are no signals.
func TestLocksAreHandedOverWithoutSignals(t *testing.T) {
	t.Parallel()
	s := newStore(t, shared.Server(t).Client(t), &Options{Prefix: rand.Text() + ":", Place: time.Second})
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer nowhere.Close()
	s.subscription = pubsub.New(func(ctx context.Context) (*redis.PubSub, func() bool) {
		return nowhere.Subscribe(ctx), func() bool { return true }
	}, signals{}, pubsub.Options{})
	holder := acquire(t, s, requestFor("k", 10*time.Second))
	for range 3 {
		r := requestFor("k", 10*time.Second)
		done := startWait(t.Context(), t, s, r)
		holder, _ = handed(t, s, holder, done)
		around(t, r.TTL, time.Until(holder.Sent.Add(r.TTL)), "a poll gives the full TTL")
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
	require.ErrorContains(t, w.err, `wait for "k"`)
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

// Many clients contend for one lock, like many processes. Each holder waits until all others
// are in the queue, so the clients get the lock in turn.
func TestClientsHandTheLockOverInTurn(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	const clients, rounds = 8, 25
	prefix := rand.Text() + ":"
	ex := locktest.NewExclusion()
	var left atomic.Int64 // clients that still lock
	left.Store(clients)
	var mu sync.Mutex // guards turns
	var turns []int
	var wg sync.WaitGroup
	for i := range clients {
		s, err := New(rdb, &Options{Prefix: prefix})
		require.NoError(t, err)
		c, err := lock.New(s, nil)
		require.NoError(t, err)
		defer func() { assert.NoError(t, c.Close(context.Background())) }()
		wg.Go(func() {
			defer left.Add(-1)
			for range rounds {
				h, err := c.Mutex("k").Lock(t.Context())
				if !assert.NoError(t, err) {
					return
				}
				ex.Enter("k", h.Token())
				mu.Lock()
				turns = append(turns, i)
				mu.Unlock()
				for info, err := s.Inspect(t.Context(), "k"); int64(info.Waiting) < left.Load()-1 && assert.NoError(t, err); {
					time.Sleep(time.Millisecond)
					info, err = s.Inspect(t.Context(), "k")
				}
				assert.True(t, h.Valid())
				ex.Leave("k", h.Token())
				assert.NoError(t, h.Unlock(t.Context()))
			}
		})
	}
	wg.Wait()
	assert.Empty(t, ex.Violations())
	assert.Equal(t, clients*rounds, ex.Entered())
	for at := clients; at < len(turns); at++ {
		assert.Equal(t, turns[at-clients], turns[at], "the clients get the lock in turn")
	}
}
