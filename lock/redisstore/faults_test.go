package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

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

// What the server says to a long command is not that it wants a password.
func TestAMissingPasswordIsNamed(t *testing.T) {
	admin := testredis.Start(t).Client(t)
	rdb := redis.NewClient(admin.Options())
	defer rdb.Close()
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "sesame").Err())
	s := newStore(t, rdb, nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOAUTH")
	require.ErrorContains(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), "NOAUTH")
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
