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
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestStoreSurvivesAScriptFlush(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
	leases := acquireAll(t, s, "k", 3*rediskit.LeasesPerScript)
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

func TestADurableServerKeepsLeasesOverARestart(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newStore(t, srv.Client(t), nil)
	kept := acquire(t, s, request("kept"))
	srv.Kill()
	unknown(t.Context(), t, s, kept)
	require.NoError(t, srv.Restart())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, kept), "the server kept the lease")
	next := acquire(t, s, request("next"))
	assert.Greater(t, next.Token, kept.Token)
	require.NoError(t, s.Release(t.Context(), kept))
}

func TestAServerOutOfMemory(t *testing.T) {
	t.Parallel()
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
	require.NotErrorIs(t, err, driver.ErrNotAcquired)
	assert.ElementsMatch(t, before, keysOf(t, rdb, s.prefix), "the refused request wrote nothing")
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Lost},
		renew(t, s, held, driver.Lease{Request: request("none"), Token: 1}), "renewals succeed")
	acquire(t, s, held.Request) // renews the lease
	require.NoError(t, s.Release(t.Context(), held))
	given.Unanswered = true
	require.NoError(t, s.Release(t.Context(), given), "releases succeed, with a tombstone")
	_, err = s.Acquire(t.Context(), given.Request)
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	never := driver.Lease{Request: request("new"), Unanswered: true}
	require.ErrorIs(t, s.Release(t.Context(), never), driver.ErrNotHeld)
	_, err = s.Acquire(t.Context(), never.Request)
	require.ErrorIs(t, err, driver.ErrNotAcquired, "the tombstone refuses an owner without a lease")

	dump := tb.dump()
	_, err = tb.call(acquireScript, tb.keysFor("c:1"), "c:1", ttlMs, placeMs, memMs)
	require.ErrorContains(t, err, "OOM", "no waiter can enter the queue")
	assert.Equal(t, dump, tb.dump())
	assert.EqualValues(t, 1, tb.release("a:1", 0))
	assert.Contains(t, tb.value(), "b:1 ", "the waiters in the queue are served")
	_, second, _ := strings.Cut(tb.value(), " ")
	rising(t, first, second)
}

// The server does not reply NOAUTH to a long command without authentication.
func TestAMissingPasswordIsReported(t *testing.T) {
	admin := testredis.Start(t).Client(t)
	rdb := redis.NewClient(admin.Options())
	defer rdb.Close()
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "sesame").Err())
	s := newStore(t, rdb, nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOAUTH")
	require.ErrorContains(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), "NOAUTH")
}

func TestAReplicaReportsNoLoss(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	held, gone := acquire(t, s, request("held")), acquire(t, s, request("gone"))
	require.NoError(t, s.Release(t.Context(), gone))
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(), "the master does not exist, so the replica keeps its data")

	require.ErrorContains(t, unknown(t.Context(), t, s, held), "READONLY")
	require.ErrorContains(t, unknown(t.Context(), t, s, gone), "READONLY", "a replica that has no data yet must not report a loss")
	_, err := s.Acquire(t.Context(), request("new"))
	require.ErrorContains(t, err, "READONLY")
	for _, l := range []driver.Lease{held, gone} {
		err = s.Release(t.Context(), l)
		require.ErrorContains(t, err, "READONLY")
		require.NotErrorIs(t, err, driver.ErrNotHeld)
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Equal(t, []renewal.Outcome{renewal.Renewed, renewal.Lost}, renew(t, s, held, gone))
}

func TestABusyServer(t *testing.T) {
	t.Parallel()
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

func TestErrorsHideAWrongPassword(t *testing.T) {
	t.Parallel()
	const right, wrong = "right-canary", "wrong-canary"
	srv := testredis.Start(t, "--requirepass", right)
	r := request("k")
	for password, want := range map[string]string{wrong: "WRONGPASS|invalid password", "": ""} { // the empty password: the server may reset the connection
		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Password: password})
		defer rdb.Close()
		s := newStore(t, rdb, nil)
		_, errAcquire := s.Acquire(t.Context(), r)
		errRelease := s.Release(t.Context(), driver.Lease{Request: r})
		errRenew := unknown(t.Context(), t, s, driver.Lease{Request: r, Token: 1})
		for _, err := range []error{errAcquire, errRelease, errRenew} {
			require.Error(t, err)
			assert.Regexp(t, want, err.Error())
			secretless(t, err, right, wrong, r.Owner)
		}
		require.NotErrorIs(t, errAcquire, driver.ErrNotAcquired)
		require.NotErrorIs(t, errRelease, driver.ErrNotHeld)
	}
	o, err := redis.ParseURL(strings.Replace(srv.URL(), "//", "//:"+right+"@", 1))
	require.NoError(t, err)
	rdb := redis.NewClient(o)
	defer rdb.Close()
	acquire(t, newStore(t, rdb, nil), r)
}
