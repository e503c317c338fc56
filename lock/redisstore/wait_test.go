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
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// waited is what a Wait has returned.
type waited struct {
	lock.Lease
	err error
	at  time.Time
}

// startWait calls Wait, and returns when that is in the queue.
func startWait(ctx context.Context, t testing.TB, s *Store, r lock.Request) <-chan waited {
	t.Helper()
	done := make(chan waited, 1)
	go func() {
		l, err := s.Wait(ctx, r)
		done <- waited{l, err, time.Now()}
	}()
	k := s.keys(r.Key, r.Owner)
	require.Eventually(t, func() bool {
		return s.one.rdb.ZScore(context.Background(), k.places, r.Owner).Err() == nil
	}, soon, time.Millisecond)
	return done
}

// handed releases a lock and returns what the waiter got, and after what time.
func handed(t testing.TB, s *Store, l lock.Lease, done <-chan waited) (lock.Lease, time.Duration) {
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
		return lock.Lease{}, 0
	}
}

func requestFor(key string, ttl time.Duration) lock.Request {
	r := request(key)
	r.TTL = ttl
	return r
}

// patient returns a store whose waiters ask by themselves every 18 minutes.
func patient(t testing.TB, rdb redis.UniversalClient) *Store {
	return newStore(t, rdb, &Options{Prefix: rand.Text() + ":", Place: time.Hour})
}

func TestASignalHandsOver(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	holder := acquire(t, s, requestFor("k", time.Hour))
	for range 5 {
		start := time.Now()
		done := startWait(t.Context(), t, s, requestFor("k", time.Hour))
		time.Sleep(200 * time.Millisecond) // it asks once more when it hears
		released := time.Now()
		var took time.Duration
		holder, took = handed(t, s, holder, done)
		assert.Less(t, took, soon, "no poll came")
		assert.False(t, holder.Unanswered)
		assert.False(t, holder.Sent.Before(start), "a place of a whole TTL")
		assert.False(t, holder.Sent.After(released), "it counts from the request, not from the signal")
	}
}

func TestWhatIsHandedOverIsWhatIsLeftOfThePlace(t *testing.T) {
	s, rdb := sharedStore(t)
	holder := acquire(t, s, request("k"))
	r := request("k")
	done := startWait(t.Context(), t, s, r)
	time.Sleep(100 * time.Millisecond)
	l, _ := handed(t, s, holder, done)
	onServer := rdb.PTTL(t.Context(), s.lockKey("k")).Val()
	around(t, 10*time.Second, onServer)
	assert.Less(t, time.Until(l.Sent.Add(ttl30)), onServer+time.Millisecond, "never more than the server gives")
	around(t, 10*time.Second, time.Until(l.Sent.Add(ttl30)))
}

func TestPlaces(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), nil)
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 6 * time.Second: 3 * time.Second, 12 * time.Second: 4 * time.Second, ttl30: 10 * time.Second,
		time.Minute: 10 * time.Second, time.Hour: 6 * time.Minute,
	} {
		assert.Equal(t, want, s.place(ttl), "%v", ttl)
	}
	s.placeFor = 5 * time.Second
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, ttl30: 5 * time.Second, time.Hour: 6 * time.Minute,
	} {
		assert.Equal(t, want, s.place(ttl), "%v", ttl)
	}
}

func TestPollsKeepThePlace(t *testing.T) {
	t.Parallel()
	const place = time.Second
	s := newStore(t, shared.Server(t).Client(t), &Options{Prefix: rand.Text() + ":", Place: place})
	ttl := 3 * time.Second
	holder := acquire(t, s, requestFor("k", time.Minute))
	requests := []lock.Request{requestFor("k", ttl), requestFor("k", ttl)}
	first, second := startWait(t.Context(), t, s, requests[0]), startWait(t.Context(), t, s, requests[1])
	time.Sleep(7 * place / 2)
	for _, r := range requests {
		ends := s.one.rdb.ZScore(t.Context(), s.keys(r.Key, r.Owner).places, r.Owner).Val()
		assert.Greater(t, int64(ends), time.Now().UnixMilli())
	}
	holder, took := handed(t, s, holder, first)
	assert.Less(t, took, soon)
	handed(t, s, holder, second)
}

// Without signals the polls do it all.
func TestSignalsAreNotNeeded(t *testing.T) {
	s := newStore(t, shared.Server(t).Client(t), &Options{Prefix: rand.Text() + ":", Place: time.Second})
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer nowhere.Close()
	s.signals.open = func(ctx context.Context) (*redis.PubSub, func() bool) {
		return nowhere.Subscribe(ctx), func() bool { return true }
	}
	holder := acquire(t, s, requestFor("k", 10*time.Second))
	for range 3 {
		r := requestFor("k", 10*time.Second)
		done := startWait(t.Context(), t, s, r)
		holder, _ = handed(t, s, holder, done)
		around(t, r.TTL, time.Until(holder.Sent.Add(r.TTL)), "a poll gives the full TTL")
	}
}

func TestAWaiterOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), nil)
	acquire(t, s, request("k"))
	done := startWait(t.Context(), t, s, request("k"))
	require.NoError(t, srv.Restart())
	select {
	case w := <-done: // the restart has lost the lock
		require.NoError(t, w.err)
	case <-time.After(long):
		require.Fail(t, "the waiter does not come back")
	}
}

func TestAWaitGivesUpOnAServerThatHangs(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), &Options{Place: time.Second, Timeout: time.Second})
	acquire(t, s, requestFor("k", 5*time.Second))
	queued := startWait(t.Context(), t, s, requestFor("k", 5*time.Second))
	require.NoError(t, srv.Stop())
	fresh := make(chan waited, 1)
	go func() {
		l, err := s.Wait(t.Context(), request("other"))
		fresh <- waited{l, err, time.Now()}
	}()
	for bound, done := range map[string]<-chan waited{"333.333333ms": queued, "1s": fresh} {
		w := <-done
		require.ErrorContains(t, w.err, "no answer within "+bound)
		require.NotErrorIs(t, w.err, context.DeadlineExceeded)
		assert.True(t, w.Unanswered)
	}
	require.NoError(t, srv.Cont())
}

func TestACancelledWaitSaysWhetherAllWasAnswered(t *testing.T) {
	s, rdb := sharedStore(t)
	holder := acquire(t, s, request("k"))
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := request("k")
	done := startWait(ctx, t, s, r)
	time.Sleep(100 * time.Millisecond)
	cancel(cause)
	w := <-done
	require.ErrorIs(t, w.err, cause)
	require.ErrorContains(t, w.err, `wait for "k"`)
	secretless(t, w.err, r.Owner)
	assert.False(t, w.Unanswered)
	require.ErrorIs(t, s.Release(t.Context(), lock.Lease{Request: r}), lock.ErrNotHeld)
	require.NoError(t, s.Release(t.Context(), holder))
	assert.Len(t, keysOf(t, rdb, s.prefix), 1, "nothing is left but the last token")
}

// When a signal is to be believed, and from when what it tells of counts: the rules
// that keep two from holding a lock at a time.
func TestSignals(t *testing.T) {
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
		sent    time.Time // from which a place counts, zero: it is not believed
	}{
		{name: "before any answer", signal: 7, sent: now.Add(-4 * time.Second)},
		{name: "after the answer", answers: []reply{queued(now.Add(-3*time.Second), 6)}, signal: 7, sent: now.Add(-3 * time.Second)},
		{name: "older than the answer", answers: []reply{queued(now.Add(-3*time.Second), 7)}, signal: 7},
		{name: "older than an answer before", answers: []reply{queued(now.Add(-3*time.Second), 7), queued(now.Add(-time.Second), 5)}, signal: 6},
		{
			name:    "after a request that was not answered",
			answers: []reply{queued(now.Add(-3*time.Second), 6), lost(now.Add(-time.Second))}, signal: 7, sent: now.Add(-3 * time.Second),
		},
		{name: "when half of the place is over", answers: []reply{queued(now.Add(-5*time.Second), 6)}, signal: 7},
		{name: "of a lock that was taken away", signal: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &waiting{
				store: s, request: request("k"), place: place, anchor: now.Add(-4 * time.Second),
				ear: s.signals.join(fmt.Sprint("o:", i)), answers: make(chan reply, 1), queued: true, polling: true,
			}
			for _, r := range tc.answers {
				l, err := w.answered(r)
				require.Nil(t, l)
				require.NoError(t, err)
			}
			w.ear.token, w.ear.again = tc.signal, false
			l := w.signalled(t.Context())
			if tc.sent.IsZero() {
				assert.Nil(t, l)
				assert.Equal(t, tc.signal > w.mark, w.again, "what is fresh is asked about")
				return
			}
			require.NotNil(t, l)
			assert.Equal(t, tc.signal, l.Token)
			assert.Equal(t, tc.sent.Add(place), l.Sent.Add(ttl30))
		})
	}
}

// What may have been missed while a poll was under way is asked about when that has
// been answered.
func TestAPollFollowsThePollThatWasUnderWay(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	r := requestFor("k", time.Hour)
	w := &waiting{
		store: s, request: r, place: time.Hour, anchor: time.Now(), ear: s.signals.join(r.Owner), answers: make(chan reply, 1),
		queued: true, polling: true,
	}
	w.ear.ask()
	w.next(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	time.AfterFunc(50*time.Millisecond, func() {
		w.answers <- reply{acquired: acquired{verdict: taken, token: 5}, sent: time.Now()}
	})
	l, err := w.queue(ctx)
	require.NoError(t, err, "the lock is free")
	assert.NotZero(t, l.Token)
}

// Many clients, as of many processes, contend for one lock: the whole line. Each holder
// waits until all others are in the queue, so they get the lock by turns.
func TestClientsHandOver(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	const clients, rounds = 8, 25
	prefix := rand.Text() + ":"
	ex := locktest.NewExclusion()
	var left atomic.Int64 // clients that are not through
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
		assert.Equal(t, turns[at-clients], turns[at], "everybody has its turn")
	}
}
