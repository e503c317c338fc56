package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// replicated is a master with replicas.
type replicated struct {
	master   *testredis.Server
	replicas []*testredis.Server
	rdb      *redis.Client // of the master
}

func startReplicated(t testing.TB, replicas int) *replicated {
	t.Helper()
	r := &replicated{master: testredis.Start(t, "--repl-diskless-sync-delay", "0")}
	r.rdb = r.master.Client(t)
	host, port, err := net.SplitHostPort(r.master.Addr())
	require.NoError(t, err)
	for range replicas {
		r.replicas = append(r.replicas, testredis.Start(t, "--replicaof", host, port))
	}
	for _, replica := range r.replicas {
		rdb := replica.Client(t)
		require.Eventually(t, func() bool {
			return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
		}, 30*time.Second, 5*time.Millisecond)
	}
	require.Eventually(t, func() bool { // the master counts the replicas only after their first acknowledgement
		return r.rdb.Wait(t.Context(), replicas, time.Second).Val() == int64(replicas)
	}, 30*time.Second, 5*time.Millisecond)
	return r
}

// detach makes a replica a master that gets no more writes of the old one, as a fail-over does
// when the network between the two is cut.
func (r *replicated) detach(t *testing.T, i int) *redis.Client {
	t.Helper()
	rdb := r.replicas[i].Client(t)
	require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
	left := fmt.Sprintf("connected_slaves:%d\r", len(r.replicas)-1)
	require.Eventually(t, func() bool {
		return strings.Contains(r.rdb.Info(t.Context(), "replication").Val(), left)
	}, 30*time.Second, 5*time.Millisecond)
	return rdb
}

// quick is a policy that does not wait long for replicas that are not there. Its Timeout is
// what a busy machine needs.
func quick(p Replicas) *Options {
	p.Timeout = 300 * time.Millisecond
	return &Options{Prefix: "lw:", Replicas: p}
}

// unhurried is a policy for replicas that are there.
func unhurried(p Replicas) *Options {
	p.Timeout = time.Minute
	return &Options{Prefix: "lw:", Replicas: p, Timeout: 10 * time.Second}
}

// tooFew checks that an error is that of a policy that is not met.
func tooFew(t *testing.T, err error, want, got int) {
	t.Helper()
	var short *driver.ReplicasError
	require.ErrorAs(t, err, &short)
	require.Equal(t, []int{want, got}, []int{short.Want, short.Got})
	require.NoError(t, short.Err)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotErrorIs(t, err, driver.ErrNotAcquired)
	require.Contains(t, err.Error(), fmt.Sprintf("confirmed by %d of %d replicas", got, want))
}

func TestReplicasAreReported(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	none := newStore(t, r.rdb, &Options{Prefix: "lw:"})
	l := acquire(t, none, request("none"))
	assert.False(t, l.ReplicasKnown, "nobody has asked")
	assert.Zero(t, none.Describe().Replicas)

	s := newStore(t, r.rdb, unhurried(Replicas{Count: 1}))
	for _, req := range requestsOfAllModes() {
		l = acquire(t, s, req)
		assert.True(t, l.ReplicasKnown, "%v", req)
		assert.EqualValues(t, 1, l.Replicas, "%v", req)
	}
	n := uint64(len(requestsOfAllModes()))
	assert.Equal(t, driver.ReplicaStats{Enough: n}, s.Describe().Replicas)

	r.detach(t, 0)
	s = newStore(t, r.rdb, quick(Replicas{Count: 1}))
	l = acquire(t, s, request("alone"))
	assert.True(t, l.ReplicasKnown)
	assert.Zero(t, l.Replicas)
	assert.Equal(t, driver.ReplicaStats{TooFew: 1}, s.Describe().Replicas)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
	assert.Equal(t, driver.ReplicaStats{TooFew: 1}, s.Describe().Replicas, "renewals do not ask")
}

// requestsOfAllModes returns a request in each mode, for different keys.
func requestsOfAllModes() []driver.Request {
	list := []driver.Request{request("exclusive"), request("read"), request("write"), request("permit"), request("members")}
	for i, mode := range []driver.Mode{driver.Exclusive, driver.Read, driver.Write, driver.Permit, driver.Members} {
		list[i].Mode = mode
	}
	list[3].Attrs = &driver.Attrs{Limit: 2}
	list[4].Attrs = &driver.Attrs{Members: []string{"a", "b"}}
	return list
}

func TestRequiredReplicasThatAreMissingGrantNothing(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	s := newStore(t, r.rdb, quick(Replicas{Count: 2, Require: true}))
	calls := uint64(0)
	wait := func(ctx context.Context, r driver.Request) (driver.Lease, error) { return s.Wait(ctx, r, func() {}) }
	for _, call := range []func(context.Context, driver.Request) (driver.Lease, error){s.Acquire, wait} {
		var err error
		require.Eventually(t, func() bool { // the replica may be too slow on a busy machine
			calls++
			_, err = call(t.Context(), request(fmt.Sprint("k", calls)))
			var short *driver.ReplicasError
			return !errors.As(err, &short) || short.Got > 0
		}, 60*time.Second, time.Millisecond)
		tooFew(t, err, 2, 1)
	}
	assert.Equal(t, driver.ReplicaStats{TooFew: calls}, s.Describe().Replicas)
}

// The releaser has written the grant, on its own connection. The replicas must have that write
// all the same.
func TestAHandedOverLockIsConfirmed(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	handOver := func(s *Store) (driver.Lease, error) {
		releaser := newStore(t, r.rdb, &Options{Prefix: "lw:"})
		holder := acquire(t, releaser, request("k"))
		type result struct {
			lease driver.Lease
			err   error
		}
		done := make(chan result, 1)
		go func() {
			l, err := s.Wait(t.Context(), request("k"), func() {})
			done <- result{l, err}
		}()
		require.Eventually(t, func() bool { return r.rdb.LLen(t.Context(), "lw:{k}:q").Val() == 1 }, 30*time.Second, time.Millisecond)
		require.NoError(t, releaser.Release(t.Context(), holder))
		got := <-done
		return got.lease, got.err
	}
	s := newStore(t, r.rdb, unhurried(Replicas{Count: 1, Require: true}))
	before := time.Now()
	l, err := handOver(s)
	require.NoError(t, err)
	assert.True(t, l.ReplicasKnown)
	assert.EqualValues(t, 1, l.Replicas)
	assert.True(t, l.Sent.After(before))
	assert.Greater(t, r.rdb.PTTL(t.Context(), "lw:{k}").Val(), s.place(ttl30), "the confirmation gives it the full TTL")
	value := r.rdb.Get(t.Context(), "lw:{k}").Val()
	assert.Equal(t, value, r.replicas[0].Client(t).Get(t.Context(), "lw:{k}").Val(), "the replica has the grant")
	require.NoError(t, s.Release(t.Context(), l))

	r.detach(t, 0)
	_, err = handOver(newStore(t, r.rdb, quick(Replicas{Count: 1, Require: true})))
	tooFew(t, err, 1, 0)
}

func TestRenewalsAreConfirmedIfTheyAreToBe(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	s := newStore(t, r.rdb, unhurried(Replicas{Count: 1, Require: true, Renewals: true}))
	leases := append([]driver.Lease{{Request: request("gone"), Token: 1}}, acquireAll(t, s, "k", 60)...)
	for _, req := range requestsOfAllModes() {
		leases = append(leases, acquire(t, s, req))
	}
	asked := s.Describe().Replicas.Enough
	out := renew(t, s, leases...)
	assert.True(t, out[0].IsLost(), "one that is lost does not spoil the batch")
	for i := range out[1:] {
		assert.Equal(t, renewal.Renewed, out[1+i], "%d", i)
	}
	assert.Equal(t, asked+1, s.Describe().Replicas.Enough, "one WAIT for the batch")

	r.detach(t, 0)
	s = newStore(t, r.rdb, quick(Replicas{Count: 1, Require: true, Renewals: true}))
	out = make([]renewal.Outcome, len(leases))
	err := s.Renew(t.Context(), leases, out)
	tooFew(t, err, 1, 0)
	assert.True(t, out[0].IsLost(), "the master's answer that a lease is gone counts")
	for i := range out[1:] {
		assert.Equal(t, renewal.Unknown, out[1+i], "%d", i)
	}
	s = newStore(t, r.rdb, quick(Replicas{Count: 1, Renewals: true}))
	assert.Equal(t, renewal.Renewed, renew(t, s, leases...)[1], "without Require it is only counted")
	assert.Equal(t, driver.ReplicaStats{TooFew: 1}, s.Describe().Replicas)
}

func TestReplicasOfAClusterConfirm(t *testing.T) {
	t.Parallel()
	c := testredis.StartCluster(t, 2, true)
	s := newStore(t, c.Client(t), unhurried(Replicas{Count: 1, Require: true, Renewals: true}))
	var leases []driver.Lease
	for i := range 8 { // on both masters
		l := acquire(t, s, request(fmt.Sprint("k", i)))
		assert.EqualValues(t, 1, l.Replicas)
		leases = append(leases, l)
	}
	for _, outcome := range renew(t, s, leases...) {
		assert.Equal(t, renewal.Renewed, outcome)
	}
}

func TestReplicasBehindSentinelConfirm(t *testing.T) {
	t.Parallel()
	at := startSentinel(t)
	s := newStore(t, at.client(t), unhurried(Replicas{Count: 1, Require: true}))
	require.Eventually(t, func() bool { return at.master.Client(t).Wait(t.Context(), 1, time.Second).Val() == 1 }, 30*time.Second, 5*time.Millisecond)
	assert.EqualValues(t, 1, acquire(t, s, request("k")).Replicas)
}

// WAIT blocks its connection. Nothing else may need that connection, and the caller need not
// wait for the answer.
func TestABlockedWaitDelaysNobody(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 0)
	s := newStore(t, r.rdb, &Options{Prefix: "lw:", PoolSize: 1, Timeout: time.Hour, Replicas: Replicas{Count: 1, Require: true, Timeout: time.Hour}})
	free := newStore(t, r.rdb, &Options{Prefix: "lw:"})
	held := acquire(t, free, request("held"))
	long := requestFor("blocked", 24*time.Hour)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, long)
		done <- err
	}()
	blocked := func() bool {
		return strings.Contains(r.rdb.Info(t.Context(), "clients").Val(), "blocked_clients:1\r")
	}
	require.Eventually(t, blocked, 30*time.Second, 5*time.Millisecond)
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, held), "renewals have other connections")
	require.NoError(t, s.Release(t.Context(), held), "so have releases")
	require.True(t, blocked())
	cancel(errNoError)
	require.ErrorIs(t, <-done, errNoError)
}

// A server can refuse WAIT, or not answer it.
func TestWhatReplicasHaveIsNotKnownWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t, "--rename-command", "WAIT", "")
	rdb := srv.Client(t)
	s := newStore(t, rdb, unhurried(Replicas{Count: 1, Require: true}))
	_, err := s.Acquire(t.Context(), request("k"))
	var short *driver.ReplicasError
	require.ErrorAs(t, err, &short)
	require.ErrorContains(t, short.Err, "unknown command")
	assert.Equal(t, driver.ReplicaStats{Unanswered: 1}, s.Describe().Replicas)
	report := newStore(t, rdb, unhurried(Replicas{Count: 1}))
	l := acquire(t, report, request("other"))
	assert.False(t, l.ReplicasKnown)
}

func TestAPolicyIsChecked(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, p := range []Replicas{{Count: -1}, {Count: 1 << 20}, {Require: true}, {Renewals: true}, {Timeout: 1}, {Count: 1, Timeout: -1}} {
		_, err := New(rdb, &Options{Replicas: p})
		require.ErrorContains(t, err, "Options.Replicas.", "%+v", p)
	}
}

func TestACheckKnowsThePolicy(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 1)
	for _, test := range []struct {
		policy Replicas
		want   string
	}{
		{Replicas{Count: 1, Require: true}, "note replicas-asked"},
		{Replicas{Count: 2}, "warning replicas-missing"},
		{Replicas{Count: 2, Require: true}, "unsafe replicas-missing"},
	} {
		report := checked(t, r.rdb, quick(test.policy))
		assert.Contains(t, found(report), test.want, "%v", report)
	}
	report := checked(t, testredis.Start(t, "--rename-command", "WAIT", "").Client(t), quick(Replicas{Count: 1}))
	assert.Contains(t, findingOf(t, report, "rights-replicas").Seen, "wait: unknown command")
}

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
