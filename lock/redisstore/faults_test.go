package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// soon is for what must not wait for the server. It leaves a busy machine room.
const soon = 500 * time.Millisecond

// within runs f and checks how long that takes.
func within(t testing.TB, least, most time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	took := time.Since(start)
	assert.GreaterOrEqual(t, took, least)
	assert.Less(t, took, most)
}

func TestAFlushOfTheScriptsGoesUnnoticed(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
	leases := acquireAll(t, s, "k", 3*keysPerScript)
	require.NoError(t, rdb.Del(t.Context(), s.lockKey("k7")).Err())
	flush()
	for i, outcome := range renew(t, s, leases...) {
		want := renewal.Renewed
		if i == 7 {
			want = renewal.Lost
		}
		assert.Equal(t, want, outcome, i)
	}
	flush()
	acquire(t, s, request("new"))
	flush()
	require.NoError(t, s.Release(t.Context(), leases[0]))
	flush()
	_, err := s.Inspect(t.Context(), "k1")
	require.NoError(t, err)
	flush()
	require.NoError(t, s.ForceRelease(t.Context(), "k1"))
}

func TestARestart(t *testing.T) {
	srv := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newStore(t, srv.Client(t), nil)
	kept := acquire(t, s, request("kept"))
	srv.Kill()
	unknown(t.Context(), t, s, kept)
	require.NoError(t, srv.Restart())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, kept), "what was durable is there again")
	next := acquire(t, s, request("next"))
	assert.Greater(t, next.Token, kept.Token)
	require.NoError(t, s.Release(t.Context(), kept))
}

func TestOutOfMemory(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	tb := tableOn(t, rdb)
	held, given := acquire(t, s, request("held")), acquire(t, s, request("given"))
	first := tb.granted("a:1")
	tb.queued("b:1")
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := keysOf(t, rdb, s.prefix)

	_, err := s.Acquire(t.Context(), request("new"))
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	assert.ElementsMatch(t, before, keysOf(t, rdb, s.prefix), "refused with nothing written")
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Lost},
		renew(t, s, held, lock.Lease{Request: request("none"), Token: 1}), "renewing goes on")
	acquire(t, s, held.Request) // again
	require.NoError(t, s.Release(t.Context(), held))
	given.Unanswered = true
	require.NoError(t, s.Release(t.Context(), given), "releasing too, with a tombstone")
	_, err = s.Acquire(t.Context(), given.Request)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	never := lock.Lease{Request: request("new"), Unanswered: true}
	require.ErrorIs(t, s.Release(t.Context(), never), lock.ErrNotHeld)
	_, err = s.Acquire(t.Context(), never.Request)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "the tombstone of one that had nothing")

	dump := tb.dump()
	_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, placeMs, memMs)
	require.ErrorContains(t, err, "OOM", "nobody is queued any more")
	assert.Equal(t, dump, tb.dump())
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "b:1 ", "but those in the queue are served")
	_, second, _ := strings.Cut(tb.value(), " ")
	rising(t, first, second)
}

func TestAReplicaTellsNothing(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	held, gone := acquire(t, s, request("held")), acquire(t, s, request("gone"))
	require.NoError(t, s.Release(t.Context(), gone))
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(), "of a master that is not there: it keeps its data")

	require.ErrorContains(t, unknown(t.Context(), t, s, held), "READONLY")
	require.ErrorContains(t, unknown(t.Context(), t, s, gone), "READONLY", "a replica that is still empty must not tell everybody of a loss")
	_, err := s.Acquire(t.Context(), request("new"))
	require.ErrorContains(t, err, "READONLY")
	for _, l := range []lock.Lease{held, gone} {
		err = s.Release(t.Context(), l)
		require.ErrorContains(t, err, "READONLY")
		require.NotErrorIs(t, err, lock.ErrNotHeld)
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Lost}, renew(t, s, held, gone))
}

func TestAServerThatIsBusy(t *testing.T) {
	srv := testredis.Start(t, "--lua-time-limit", "1")
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	l := acquire(t, s, request("k"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		rdb.Eval(context.Background(), "while true do end", nil)
	}()
	busy := func() bool { return redis.HasErrorPrefix(rdb.Get(t.Context(), "x").Err(), "BUSY") }
	require.Eventually(t, busy, 5*time.Second, time.Millisecond)
	require.ErrorContains(t, unknown(t.Context(), t, s, l), "BUSY")
	require.ErrorContains(t, s.Release(t.Context(), l), "BUSY")
	require.NoError(t, rdb.ScriptKill(t.Context()).Err())
	<-done
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
}

func TestAWrongPasswordIsNotShown(t *testing.T) {
	const right, wrong = "right-canary", "wrong-canary"
	srv := testredis.Start(t, "--requirepass", right)
	r := request("k")
	for password, want := range map[string]string{wrong: "WRONGPASS|invalid password", "": ""} { // without one the connection may be reset
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Password: password})
		defer rdb.Close()
		s := newStore(t, rdb, nil)
		_, errAcquire := s.Acquire(t.Context(), r)
		errRelease := s.Release(t.Context(), lock.Lease{Request: r})
		errRenew := unknown(t.Context(), t, s, lock.Lease{Request: r, Token: 1})
		for _, err := range []error{errAcquire, errRelease, errRenew} {
			require.Error(t, err)
			assert.Regexp(t, want, err.Error())
			secretless(t, err, right, wrong, r.Owner)
		}
		require.NotErrorIs(t, errAcquire, lock.ErrNotAcquired)
		require.NotErrorIs(t, errRelease, lock.ErrNotHeld)
	}
	o, err := redis.ParseURL(strings.Replace(srv.URL(), "//", "//:"+right+"@", 1))
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	defer rdb.Close()
	acquire(t, newStore(t, rdb, nil), r)
}

// hanging returns stores whose server does not answer, each in its own way.
func hanging(t *testing.T) map[string]*Store {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	silent := redis.NewClient(&redis.Options{Addr: listener.Addr().String()})
	t.Cleanup(func() { silent.Close() })

	unreachable := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379", Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // a host that drops packets
		return nil, ctx.Err()
	}})
	t.Cleanup(func() { unreachable.Close() })

	srv := testredis.Start(t)
	stopped := newStore(t, srv.Client(t), nil)
	acquireAll(t, stopped, "warm", 3)
	renew(t, stopped, lock.Lease{Request: request("warm"), Token: 1})
	require.NoError(t, srv.Stop())
	return map[string]*Store{
		"accepts and is silent": newStore(t, silent, nil),
		"drops packets":         newStore(t, unreachable, nil),
		"is stopped":            stopped,
	}
}

func TestAServerThatHangs(t *testing.T) {
	l := lock.Lease{Request: request("k"), Token: 17}
	calls := map[string]func(ctx context.Context, t *testing.T, s *Store) error{
		"acquire": func(ctx context.Context, _ *testing.T, s *Store) error {
			_, err := s.Acquire(ctx, l.Request)
			return err
		},
		"release": func(ctx context.Context, _ *testing.T, s *Store) error { return s.Release(ctx, l) },
		"renew":   func(ctx context.Context, t *testing.T, s *Store) error { return unknown(ctx, t, s, l) },
		"inspect": func(ctx context.Context, _ *testing.T, s *Store) error { _, err := s.Inspect(ctx, "k"); return err },
	}
	for how, s := range hanging(t) {
		for verb, call := range calls {
			t.Run(how+"/"+verb, func(t *testing.T) {
				cause := errors.New("the cause")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
				within(t, 10*time.Millisecond, soon, func() {
					require.ErrorIs(t, call(ctx, t, s), cause, "a plain cancel, which go-redis does not notice")
				})
				ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer stop()
				within(t, 50*time.Millisecond, soon, func() {
					err := call(ctx, t, s)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.ErrorContains(t, err, `"k"`)
				})
			})
		}
	}
}

func TestTheBoundOfTheStore(t *testing.T) {
	for how, s := range hanging(t) {
		t.Run(how, func(t *testing.T) {
			s.timeout = 50 * time.Millisecond
			l := lock.Lease{Request: request("k"), Token: 17}
			within(t, s.timeout, soon, func() {
				_, err := s.Acquire(context.Background(), l.Request)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "the ctx has not ended")
				require.ErrorContains(t, err, "no answer within 50ms")
			})
			within(t, s.timeout, soon, func() {
				require.ErrorIs(t, s.Release(context.Background(), l), os.ErrDeadlineExceeded)
			})
		})
	}
}

func TestNothingIsWrittenAfterRenewReturned(t *testing.T) {
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), nil)
	leases := acquireAll(t, s, "k", 100)
	require.NoError(t, srv.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	time.AfterFunc(20*time.Millisecond, cancel)
	out := make([]renewal.Outcome, len(leases))
	require.ErrorIs(t, s.Renew(ctx, leases, out), context.Canceled)
	clear(leases) // the race detector would tell of a late reader, and of a late writer
	clear(out)
	require.NoError(t, srv.Cont())
	s.running.Wait()
	acquire(t, s, request("after"))
	renew(t, s, lock.Lease{Request: request("k"), Token: 1}) // on what the other left behind
	assert.Equal(t, make([]renewal.Outcome, len(leases)), out)
}

func TestCloseEndsWhatHangs(t *testing.T) {
	for how, s := range hanging(t) {
		t.Run(how, func(t *testing.T) {
			l := lock.Lease{Request: request("k"), Token: 17}
			var wg sync.WaitGroup
			for range 2 * defaultPoolSize { // half of them wait for a connection
				wg.Go(func() {
					_, err := s.Acquire(t.Context(), l.Request)
					assert.ErrorIs(t, err, lock.ErrClosed)
				})
			}
			wg.Go(func() {
				out := make([]renewal.Outcome, 1)
				assert.ErrorIs(t, s.Renew(t.Context(), []lock.Lease{l}, out), lock.ErrClosed)
				assert.Equal(t, renewal.Unknown, out[0])
			})
			time.Sleep(50 * time.Millisecond)
			within(t, 0, soon, func() { require.NoError(t, s.Close()) })
			within(t, 0, soon, wg.Wait)
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	srv := testredis.Start(t)
	s := newStore(t, srv.Client(t), nil)
	l := acquire(t, s, request("k"))
	srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	within(t, 0, 2*time.Second, func() {
		_, err := s.Acquire(ctx, request("k"))
		require.ErrorContains(t, err, "connection refused")
		require.ErrorContains(t, s.Release(ctx, l), "connection refused")
		require.ErrorContains(t, unknown(ctx, t, s, l), "connection refused")
	})
}

func TestAcquiresThatHangDoNotHoldUpRenewals(t *testing.T) {
	hang := make(chan struct{})
	w := &wire{answer: func(command []string) string {
		if command[1] == acquireScript.digest {
			<-hang
			return ""
		}
		return "*0\r\n"
	}}
	s := newStore(t, w.client(t, redis.Options{}), &Options{PoolSize: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { _, _ = s.Acquire(ctx, request("k")) })
	}
	require.Eventually(t, func() bool { return w.evals.Load() == 2 }, 5*time.Second, time.Millisecond)
	within(t, 0, soon, func() { renew(t, s, lock.Lease{Request: request("k"), Token: 1}) })
	cancel()
	wg.Wait()
	close(hang)
}
