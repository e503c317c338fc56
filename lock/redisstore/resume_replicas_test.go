package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// A Resume is an acquisition: the replicas must confirm it, whether or not they confirm renewals.
// If they do not, the lock stays with its exporter.
func TestReplicasConfirmAResume(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	exporter := clientOf(t, r.rdb, &Options{Prefix: "lw:"})
	for _, l := range []lock.Locker{exporter.Mutex("k"), exporter.RWMutex("rw").RLocker()} {
		held, err := l.Lock(t.Context())
		require.NoError(t, err)
		secret, err := held.Export()
		require.NoError(t, err)

		resumed, err := clientOf(t, r.rdb, unhurried(Replicas{Count: 1, Require: true})).Resume(t.Context(), secret)
		require.NoError(t, err)
		n, known := resumed.Replicas()
		assert.Equal(t, []any{1, true}, []any{n, known})
		require.NoError(t, resumed.Detach())

		require.NoError(t, r.replicas[0].Stop())
		s, err := New(r.rdb, quick(Replicas{Count: 1, Require: true}))
		require.NoError(t, err)
		other, err := lock.New(s, nil)
		require.NoError(t, err)
		_, err = other.Resume(t.Context(), secret)
		tooFew(t, err, 1, 0)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		assert.Equal(t, driver.ReplicaStats{TooFew: 1}, s.Describe().Replicas, "they are asked once")
		require.NoError(t, other.Close(t.Context()), "it releases what it has")
		info, err := exporter.Inspect(t.Context(), held.Key())
		require.NoError(t, err)
		assert.Equal(t, 1, info.Held, "the lock is not released")
		assert.Equal(t, held.Token(), info.Token)
		require.NoError(t, held.Renew(t.Context(), 0), "the exporter still holds it")

		reported, err := clientOf(t, r.rdb, quick(Replicas{Count: 1})).Resume(t.Context(), secret)
		require.NoError(t, err, "without Require the number is only reported")
		n, known = reported.Replicas()
		assert.Equal(t, []any{0, true}, []any{n, known})
		require.NoError(t, reported.Detach())

		require.NoError(t, r.replicas[0].Cont())
		last := clientOf(t, r.rdb, unhurried(Replicas{Count: 1, Require: true}))
		var again *lock.Held
		require.Eventually(t, func() bool { // the replica may have to connect again
			again, err = last.Resume(t.Context(), secret)
			return err == nil
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, again.Unlock(t.Context()))
		_, err = last.Resume(t.Context(), secret)
		require.ErrorIs(t, err, lock.ErrNotHeld)
	}
}

// Without an answer of WAIT, it is not known whether the lock was confirmed.
func TestAResumeWithoutAnAnswerOfTheReplicas(t *testing.T) {
	t.Parallel()
	rdb := testredis.Start(t, "--rename-command", "WAIT", "").Client(t)
	plain := newStore(t, rdb, &Options{Prefix: "lw:"})
	l := acquire(t, plain, request("k"))
	resumed, err := plain.Resume(t.Context(), l)
	require.NoError(t, err)
	assert.False(t, resumed.ReplicasKnown, "nobody has asked")
	assert.True(t, resumed.Sent.After(l.Sent))

	s := newStore(t, rdb, unhurried(Replicas{Count: 1, Require: true}))
	_, err = s.Resume(t.Context(), l)
	var short *driver.ReplicasError
	require.ErrorAs(t, err, &short)
	require.ErrorContains(t, short.Err, "unknown command")
	assert.Equal(t, driver.ReplicaStats{Unanswered: 1}, s.Describe().Replicas)
	resumed, err = newStore(t, rdb, unhurried(Replicas{Count: 1})).Resume(t.Context(), l)
	require.NoError(t, err)
	assert.False(t, resumed.ReplicasKnown)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errNoError)
	_, err = plain.Resume(ctx, l)
	require.ErrorIs(t, err, errNoError)
	_, err = new(Store).Resume(t.Context(), l)
	require.ErrorContains(t, err, "not made by New")
	_, err = plain.Resume(nil, l) //nolint:staticcheck // the context is nil on purpose
	require.ErrorContains(t, err, "the context is nil")
}
