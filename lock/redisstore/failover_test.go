package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// clientOf returns a lock client on a server.
func clientOf(t *testing.T, rdb *redis.Client, o *Options) *lock.Client {
	t.Helper()
	s, err := New(rdb, o)
	require.NoError(t, err)
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) }) // the master may be dead
	return c
}

// The network between the master and its replica is cut, and the replica is promoted while the
// old master still serves its client. Without a policy two processes hold the lock. A required
// replica makes the old master's client hold nothing.
func TestARequiredReplicaPreventsAForgottenGrant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy  Replicas
		holders int
	}{
		{Replicas{}, 2},
		{Replicas{Count: 1, Require: true, Timeout: 300 * time.Millisecond}, 1},
	} {
		r := startReplicated(t, 1)
		promoted := r.detach(t, 0)
		old := clientOf(t, r.rdb, &Options{Prefix: "lw:", Replicas: test.policy})
		holders := 0
		first, err := old.Mutex("k").TryLock(t.Context())
		if test.policy.Require {
			tooFew(t, err, 1, 0)
			require.Eventually(t, func() bool { return r.rdb.Exists(t.Context(), "lw:{k}").Val() == 0 }, 30*time.Second, time.Millisecond,
				"the lock is given back")
		} else {
			require.NoError(t, err)
		}
		second, err := clientOf(t, promoted, &Options{Prefix: "lw:"}).Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		for _, h := range []*lock.Held{first, second} {
			if h.Valid() {
				holders++
			}
		}
		assert.Equal(t, test.holders, holders, "%+v", test.policy)
	}
}

// WAIT is no consensus. One of two replicas confirms the lock, and the other one is promoted.
// The lock is then held twice. Only the fencing token tells the two holders apart.
func TestARequiredReplicaDoesNotPreventTheOtherFromBeingPromoted(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 2)
	behind := r.detach(t, 1)
	old := clientOf(t, r.rdb, unhurried(Replicas{Count: 1, Require: true, Renewals: true}))
	first, err := old.Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	n, known := first.Replicas()
	assert.Equal(t, []any{1, true}, []any{n, known})
	r.master.Kill() // and behind is promoted, although replica 0 has the lock
	assert.EqualValues(t, 1, r.replicas[0].Client(t).Exists(t.Context(), "lw:{k}").Val())

	second, err := clientOf(t, behind, &Options{Prefix: "lw:"}).Mutex("k").TryLock(t.Context())
	require.NoError(t, err)
	assert.True(t, first.Valid())
	assert.True(t, second.Valid(), "both hold the lock until the renewals of the first fail")
	assert.Greater(t, second.Token(), first.Token())
}

// A replica has confirmed the lock. Then it is cut off, so that its copy expires a TTL after that,
// and promoted. The old master goes on renewing: unless its renewals must be confirmed, the holder
// relies on them when the replica grants the lock to another.
func TestConfirmedRenewalsPreventAnOlderExpiry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy  Replicas
		holders int
	}{
		"grants":   {Replicas{Count: 1, Require: true}, 2},
		"renewals": {Replicas{Count: 1, Require: true, Renewals: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReplicated(t, 1)
			old := clientOf(t, r.rdb, unhurried(test.policy)).With(lock.Terms{TTL: 6 * time.Second})
			first, err := old.Mutex("k").TryLock(t.Context())
			require.NoError(t, err)
			promoted := r.detach(t, 0)
			assert.EqualValues(t, 1, promoted.Exists(t.Context(), "lw:{k}").Val(), "the replica has the lock")

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			second, err := clientOf(t, promoted, &Options{Prefix: "lw:"}).Mutex("k").Lock(ctx)
			require.NoError(t, err)
			holders := 0
			for _, h := range []*lock.Held{first, second} {
				if h.Valid() {
					holders++
				}
			}
			assert.Equal(t, test.holders, holders)
			assert.Greater(t, second.Token(), first.Token())
			if test.policy.Renewals {
				require.ErrorIs(t, first.Err(), lock.ErrLost)
			}
		})
	}
}

func TestAHandleKnowsItsReplicas(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	c := clientOf(t, r.rdb, unhurried(Replicas{Count: 1}))
	plain := clientOf(t, r.rdb, &Options{Prefix: "lw:"})
	replicas := func(l lock.Locker) []any {
		h, err := l.Lock(t.Context())
		require.NoError(t, err)
		n, known := h.Replicas()
		require.NoError(t, h.Unlock(t.Context()))
		return []any{n, known}
	}
	for _, l := range []lock.Locker{
		c.Mutex("m"), c.Reentrant("r"), c.RWMutex("rw"), c.Semaphore("s", 2), c.Batch("b", "x"),
		lock.Multi(c.Mutex("m1"), c.Mutex("m2")),
	} {
		assert.Equal(t, []any{1, true}, replicas(l), "%v", l)
	}
	assert.Equal(t, []any{0, false}, replicas(plain.Mutex("m")))
	assert.Equal(t, []any{0, false}, replicas(lock.Multi(c.Mutex("m1"), plain.Mutex("m2"))))
	n, known := new(lock.Held).Replicas()
	assert.Equal(t, []any{0, false}, []any{n, known})
}

// Another try would take as long again, and most likely find no more replicas.
func TestMissingReplicasAreAskedOnce(t *testing.T) {
	t.Parallel()
	s, err := New(startReplicated(t, 0).rdb, quick(Replicas{Count: 1, Require: true}))
	require.NoError(t, err)
	c, err := lock.New(s, nil)
	require.NoError(t, err)
	defer c.Close(t.Context())
	_, err = c.Mutex("k").TryLock(t.Context())
	tooFew(t, err, 1, 0)
	assert.Equal(t, driver.ReplicaStats{TooFew: 1}, s.Describe().Replicas)
	assert.Equal(t, driver.ReplicaStats{TooFew: 1}, c.Stats().Replicas)
}

// A Lock that waited gives the lock back, too, and the next one gets it.
func TestALockWithoutItsReplicasIsGivenBack(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 0)
	c := clientOf(t, r.rdb, quick(Replicas{Count: 1, Require: true}))
	_, err := c.Mutex("k").Lock(t.Context())
	tooFew(t, err, 1, 0)
	require.ErrorIs(t, err, lock.ErrUnavailable)
	plain := clientOf(t, r.rdb, &Options{Prefix: "lw:"})
	h, err := plain.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
}
