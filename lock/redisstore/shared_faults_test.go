package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// sharedModes asks for a key of its own in each shared mode, and besides for what
// cannot be held at that time.
func sharedModes(key string) (first, second []lock.Request) {
	first = allModes(key)[1:]
	for _, r := range first {
		r.Owner = request("").Owner
		r.Mode = max(r.Mode, lock.Write)
		second = append(second, r)
	}
	return first, second
}

// allRenewed are the outcomes of n leases that are held.
func allRenewed(n int) []renewal.Outcome {
	out := make([]renewal.Outcome, n)
	for i := range out {
		out[i] = renewal.Renewed
	}
	return out
}

func TestSharedLocksOutOfMemory(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("held")
	var leases []lock.Lease
	for i, r := range first {
		leases = append(leases, acquire(t, s, r))
		_, err := s.ask(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
	}
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	before := keysOf(t, rdb, s.prefix)
	news, _ := sharedModes("new")
	for _, r := range news {
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, "OOM")
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		_, err = s.ask(t.Context(), r, time.Minute)
		require.ErrorContains(t, err, "OOM")
	}
	assert.ElementsMatch(t, before, keysOf(t, rdb, s.prefix), "refused with nothing written")
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...), "renewing goes on")
	for i, l := range leases {
		acquire(t, s, l.Request) // again
		l.Unanswered = true
		require.NoError(t, s.Release(t.Context(), l), "releasing too, with a tombstone")
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		assert.Greater(t, acquire(t, s, second[i]).Token, l.Token, "and those that wait are served")
	}
}

func TestAReplicaTellsNothingOfSharedLocks(t *testing.T) {
	rdb := testredis.Start(t).Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("k")
	var leases []lock.Lease
	for _, r := range first {
		leases = append(leases, acquire(t, s, r))
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(), "of a master that is not there: it keeps its data")
	for i, l := range leases {
		require.ErrorContains(t, unknown(t.Context(), t, s, l), "READONLY")
		never := lock.Lease{Request: second[i], Token: 17}
		require.ErrorContains(t, unknown(t.Context(), t, s, never), "READONLY", "a replica that is still empty must not tell everybody of a loss")
		require.ErrorContains(t, s.Release(t.Context(), l), "READONLY")
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorContains(t, err, "READONLY")
	}
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...))
}

func TestSharedLocksAfterARestart(t *testing.T) {
	srv := testredis.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := srv.Client(t)
	s := newStore(t, rdb, nil)
	first, second := sharedModes("k")
	var leases []lock.Lease
	for i, r := range first {
		leases = append(leases, acquire(t, s, r))
		_, err := s.ask(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
	}
	srv.Kill()
	unknown(t.Context(), t, s, leases...)
	require.NoError(t, srv.Restart())
	assert.Equal(t, allRenewed(len(leases)), renew(t, s, leases...), "what was durable is there again")
	for i, l := range leases {
		require.NoError(t, s.Release(t.Context(), l))
		assert.Greater(t, acquire(t, s, second[i]).Token, l.Token, "the queue too")
	}
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	for i, outcome := range renew(t, s, leases...) {
		assert.Equal(t, renewal.Lost, outcome)
		assert.Greater(t, acquire(t, s, first[i]).Token, leases[i].Token, "tokens rise though nothing is known of them")
	}
}

func TestARequestForASharedLockThatIsExecutedLate(t *testing.T) {
	srv := testredis.Start(t)
	proxy := testredis.StartProxy(t, srv)
	rdb := srv.Client(t)
	prefix := &Options{Prefix: "late:"}
	near, far := newStore(t, rdb, prefix), newStore(t, proxy.Client(t), prefix)
	warm, _ := sharedModes("warm")
	acquire(t, far, warm[0]) // the connection, and the script
	first, second := sharedModes("k")
	for i, r := range first {
		proxy.Swallow()
		done := make(chan error, 1)
		go func() {
			_, err := far.Acquire(context.Background(), r)
			done <- err
		}()
		time.Sleep(20 * time.Millisecond)
		require.ErrorIs(t, near.Release(t.Context(), lock.Lease{Request: r, Unanswered: true}), lock.ErrNotHeld)
		proxy.Pass()
		require.ErrorIs(t, <-done, lock.ErrNotAcquired, "it takes nothing any more")
		acquire(t, near, second[i])
	}
}

func TestAnAnswerOfASharedLockThatGotLost(t *testing.T) {
	s, _ := sharedStore(t)
	first, second := sharedModes("k")
	for i, r := range first {
		got, err := s.ask(t.Context(), r, 0) // which nobody hears
		require.NoError(t, err)
		l := acquire(t, s, r)
		assert.Equal(t, got.token, l.Token, "to ask again gets the same grant")
		_, err = s.ask(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
		_, err = s.ask(t.Context(), second[i], time.Minute)
		require.NoError(t, err)
		info, err := s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Equal(t, 1, info.Waiting, "and the same place")
		require.NoError(t, s.Release(t.Context(), l))
		require.ErrorIs(t, s.Release(t.Context(), l), lock.ErrNotHeld, "a repeated release hits nobody else")
		info, err = s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Equal(t, info.Holders[0].Token, acquire(t, s, second[i]).Token)
	}
}

func TestSignalsHandOverSharedLocks(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	first, second := sharedModes("k")
	for i, r := range first {
		r.TTL, second[i].TTL = time.Hour, time.Hour
		holder := acquire(t, s, r)
		start := time.Now()
		done := startWait(t.Context(), t, s, second[i])
		time.Sleep(200 * time.Millisecond) // it asks once more when it hears
		released := time.Now()
		l, took := handed(t, s, holder, done)
		assert.Less(t, took, soon, "no poll came")
		assert.False(t, l.Sent.Before(start), "a place of a whole TTL")
		assert.False(t, l.Sent.After(released), "it counts from the request, not from the signal")
		assert.Equal(t, allRenewed(1), renew(t, s, l))
	}
}

func TestManyOwnersOfAClientWaitForOneGroup(t *testing.T) {
	s := patient(t, shared.Server(t).Client(t))
	batch := func(owner int, members ...string) lock.Request {
		r := requestFor("group", time.Hour)
		r.Mode, r.Extra, r.Owner = lock.Members, &lock.Extra{Members: members}, fmt.Sprintf("client:%d", owner)
		return r
	}
	holder := acquire(t, s, batch(0, "a", "b", "c"))
	var done []<-chan waited
	for i, members := range [][]string{{"a", "x"}, {"b", "y"}, {"c"}, {"x"}} {
		done = append(done, startWait(t.Context(), t, s, batch(i+1, members...)))
	}
	time.Sleep(50 * time.Millisecond) // the subscription is on
	first, _ := handed(t, s, holder, done[0])
	for _, other := range done[1:3] {
		w := <-other
		require.NoError(t, w.err)
		assert.Greater(t, w.Token, holder.Token, "all of them are told that can be served")
	}
	last, _ := handed(t, s, first, done[3])
	assert.Equal(t, "client:4", last.Owner)
}
