package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// sharedModes returns a request for a separate key in each shared mode, and for each of them
// a second request that conflicts with it.
func sharedModes(key string) (first, second []driver.Request) {
	first = allModes(key)[1:]
	for _, r := range first {
		r.Owner = request("").Owner
		r.Mode = max(r.Mode, driver.Write)
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

func TestSharedLocksOnAServerOutOfMemory(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("held")
	var leases []driver.Lease
	for i, r := range first {
		leases = append(leases, acquire(t, s, r))
		_, err := s.sendAcquire(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := keysOf(t, rdb, s.prefix)
	news, _ := sharedModes("new")
	for _, r := range news {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, "OOM")
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
		_, err = s.sendAcquire(t.Context(), r, time.Minute)
		require.ErrorContains(t, err, "OOM")
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
	}
}

func TestAReplicaReportsNoLossOfSharedLocks(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("k")
	var leases []driver.Lease
	for _, r := range first {
		leases = append(leases, acquire(t, s, r))
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(), "the master does not exist, so the replica keeps its data")
	for i, l := range leases {
		require.ErrorContains(t, unknown(t.Context(), t, s, l), "READONLY")
		never := driver.Lease{Request: second[i], Token: 17}
		require.ErrorContains(t, unknown(t.Context(), t, s, never), "READONLY", "a replica that has no data yet must not report a loss")
		require.ErrorContains(t, s.Release(t.Context(), l), "READONLY")
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorContains(t, err, "READONLY")
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...))
}

func TestSharedLocksSurviveARestart(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("k")
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

func TestALateSharedAcquireIsRefused(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	proxy := testredis.StartProxy(t, srv)
	rdb := srv.Client(t)
	prefix := &Options{Prefix: "late:"}
	near, far := newStore(t, rdb, prefix), newStore(t, proxy.Client(t), prefix)
	warm, _ := sharedModes("warm")
	acquire(t, far, warm[0]) // opens a connection and loads the script
	first, second := sharedModes("k")
	for i, r := range first {
		proxy.Block()
		done := make(chan error, 1)
		go func() {
			_, err := far.Acquire(context.Background(), r)
			done <- err
		}()
		time.Sleep(20 * time.Millisecond)
		require.ErrorIs(t, near.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
		proxy.Unblock()
		require.ErrorIs(t, <-done, driver.ErrNotAcquired, "the tombstone refuses the late request")
		acquire(t, near, second[i])
	}
}

func TestReleaseASharedLockAfterALostReply(t *testing.T) {
	s, _ := sharedStore(t)
	first, second := sharedModes("k")
	for i, r := range first {
		got, err := s.sendAcquire(t.Context(), r, 0) // the reply is ignored
		require.NoError(t, err)
		l := acquire(t, s, r)
		assert.Equal(t, got.token, l.Token, "the second request returns the same grant")
		_, err = s.sendAcquire(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
		_, err = s.sendAcquire(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
		info, err := s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Equal(t, 1, info.Waiting, "the second request keeps the place")
		require.NoError(t, s.Release(t.Context(), l))
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld, "a repeated release does not affect the next holder")
		info, err = s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Equal(t, info.Holders[0].Token, acquire(t, s, second[i]).Token)
	}
}

func TestSignalsHandOverSharedLocks(t *testing.T) {
	t.Parallel()
	var calls testredis.Counter
	s := newStore(t, testredis.Start(t).Client(t), &Options{Place: time.Hour, Instrument: calls.Attach})
	first, second := sharedModes("k")
	for i, r := range first {
		r.TTL, second[i].TTL = time.Hour, time.Hour
		holder := acquire(t, s, r)
		start := time.Now()
		done := startQuietWait(t.Context(), t, s, &calls, second[i])
		released := time.Now()
		l, took := handed(t, s, holder, done)
		assert.Less(t, took, soon, "a signal, not a poll, granted the lock")
		assert.False(t, l.Sent.Before(start), "the place lasts for a whole TTL")
		assert.False(t, l.Sent.After(released), "the lease begins with the request, not with the signal")
		assert.Equal(t, allRenewed(1), renew(t, s, l))
	}
}

func TestManyOwnersOfAClientWaitForOneGroup(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	batch := func(owner int, members ...string) driver.Request {
		r := requestFor("group", time.Hour)
		r.Mode, r.Attrs, r.Owner = driver.Members, &driver.Attrs{Members: members}, fmt.Sprintf("client:%d", owner)
		return r
	}
	holder := acquire(t, s, batch(0, "a", "b", "c"))
	var done []<-chan waited
	for i, members := range [][]string{{"a", "x"}, {"b", "y"}, {"c"}, {"x"}} {
		done = append(done, startWait(t.Context(), t, s, batch(i+1, members...)))
	}
	time.Sleep(50 * time.Millisecond) // the subscription is confirmed by then
	first, _ := handed(t, s, holder, done[0])
	for _, other := range done[1:3] {
		w := <-other
		require.NoError(t, w.err)
		assert.Greater(t, w.Token, holder.Token, "every waiter whose members are free gets a signal")
	}
	last, _ := handed(t, s, first, done[3])
	assert.Equal(t, "client:4", last.Owner)
}
