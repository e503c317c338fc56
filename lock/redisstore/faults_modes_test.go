package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// rivals returns a request for a separate key in each mode, and for each of them a second
// request that conflicts with it.
func rivals(key string) (first, second []driver.Request) {
	first = allModes(key)
	for _, r := range first {
		r.Owner = request("").Owner
		if r.Mode == driver.Read {
			r.Mode = driver.Write
		}
		second = append(second, r)
	}
	return first, second
}

// allRenewed returns the outcomes of n leases that are held.
func allRenewed(n int) []renewal.Outcome {
	out := make([]renewal.Outcome, n)
	for i := range out {
		out[i] = renewal.Renewed
	}
	return out
}

// A release that keeps its lock must succeed, too: the lock would be free after its TTL.
func TestAServerOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := rivals("held")
	var leases, kept []driver.Lease
	for i, r := range first {
		leases = append(leases, acquire(t, s, r))
		_, err := s.sendAcquire(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
		if s.Describe().Keeps.Has(r.Mode) {
			r.Key = "kept " + r.Key
			kept = append(kept, keptFor(acquire(t, s, r), time.Hour))
		}
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := keysOf(t, rdb, s.prefix)
	news, _ := rivals("new")
	for _, r := range news {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, "OOM")
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
		_, err = s.sendAcquire(t.Context(), r, time.Minute)
		require.ErrorContains(t, err, "OOM", "no waiter can enter the queue")
	}
	assert.ElementsMatch(t, before, keysOf(t, rdb, s.prefix), "the refused request wrote nothing")
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...), "renewals succeed")
	for i, l := range leases {
		acquire(t, s, l.Request) // renews the lease
		l.Unanswered = true
		require.NoError(t, s.Release(t.Context(), l), "releases succeed, with a tombstone")
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorIs(t, err, driver.ErrNotAcquired)
		assert.Greater(t, acquire(t, s, second[i]).Token, l.Token, "the waiters are served")

		never := driver.Lease{Request: news[i], Unanswered: true}
		require.ErrorIs(t, s.Release(t.Context(), never), driver.ErrNotHeld)
		_, err = s.Acquire(t.Context(), never.Request)
		require.ErrorIs(t, err, driver.ErrNotAcquired, "the tombstone refuses an owner without a lease")
	}
	for _, l := range kept {
		require.NoError(t, s.Release(t.Context(), l))
		info, err := s.Inspect(t.Context(), l.Key)
		require.NoError(t, err)
		assert.Positive(t, info.FreeIn, l.Mode)
	}
}

// A replica may be behind, so its answer is no loss.
func TestAReplicaReportsNoLoss(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := rivals("k")
	var leases []driver.Lease
	for _, r := range first {
		leases = append(leases, acquire(t, s, r))
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(), "the master does not exist, so the replica keeps its data")
	for i, l := range leases {
		require.ErrorContains(t, unknown(t.Context(), t, s, l), "READONLY")
		never := driver.Lease{Request: second[i], Token: 17}
		require.ErrorContains(t, unknown(t.Context(), t, s, never), "READONLY", "a replica that has no data yet must not report a loss")
		for _, released := range []driver.Lease{l, never} {
			err := s.Release(t.Context(), released)
			require.ErrorContains(t, err, "READONLY")
			require.NotErrorIs(t, err, driver.ErrNotHeld)
		}
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorContains(t, err, "READONLY")
	}
	never := driver.Lease{Request: stateful("never"), Token: 17}
	for what, err := range map[string]error{
		"save": s.Save(t.Context(), never, 1, []byte("one"), time.Hour), "metadata": s.SetMetadata(t.Context(), never, "m"),
	} {
		require.ErrorContains(t, err, "READONLY", what)
		require.NotErrorIs(t, err, driver.ErrNotHeld, what)
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...))
}

func TestASignalHandsTheLockOver(t *testing.T) {
	t.Parallel()
	var calls testredis.Counter
	s := newStore(t, testredis.Start(t).Client(t), &Options{Place: time.Hour, Instrument: calls.Attach})
	first, second := rivals("k")
	for i, r := range first {
		r.TTL, second[i].TTL = time.Hour, time.Hour
		holder := acquire(t, s, r)
		start := time.Now()
		done := startQuietWait(t.Context(), t, s, &calls, second[i])
		released := time.Now()
		l, took := handed(t, s, holder, done)
		assert.Less(t, took, soon, "a signal, not a poll, granted the lock")
		assert.False(t, l.Unanswered)
		assert.False(t, l.Sent.Before(start), "the place lasts for a whole TTL")
		assert.False(t, l.Sent.After(released), "the lease begins with the request, not with the signal")
		assert.Equal(t, allRenewed(1), renew(t, s, l))
	}
}

func TestLocksSurviveARestartWithData(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	first, second := rivals("k")
	var leases []driver.Lease
	for i, r := range first {
		leases = append(leases, acquire(t, s, r))
		_, err := s.sendAcquire(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
	}
	srv.Kill()
	unknown(t.Context(), t, s, leases...)
	require.NoError(t, srv.Restart())
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...), "the server kept the leases")
	for i, l := range leases {
		require.NoError(t, s.Release(t.Context(), l))
		assert.Greater(t, acquire(t, s, second[i]).Token, l.Token, "the server kept the queue")
	}
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	for i, outcome := range renew(t, s, leases...) {
		assert.Equal(t, renewal.Lost, outcome)
		assert.Greater(t, acquire(t, s, first[i]).Token, leases[i].Token, "tokens rise although the server lost the last ones")
	}
}
