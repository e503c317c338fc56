package redlock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/renewal"
)

func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: "client:" + rand.Text(), TTL: time.Minute}
}

func TestALockIsAStringWithTheOwner(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, "")
	r := request(rand.Text())
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	assert.Zero(t, l.Token)
	assert.Equal(t, r.Owner, rdb.Get(t.Context(), r.Key).Val(), "the name of the key is that of the lock")
	assert.Greater(t, rdb.PTTL(t.Context(), r.Key).Val(), 59*time.Second)
	assert.Empty(t, rdb.Keys(t.Context(), "*"+r.Key+"?*").Val(), "no other key")
	require.NoError(t, s.Release(t.Context(), l))
	assert.Zero(t, rdb.Exists(t.Context(), r.Key).Val())
}

// A lock of another library is a string with any value.
func TestLocksOfOthersAreRespected(t *testing.T) {
	t.Parallel()
	rdb := shared.Server(t).Client(t)
	s := newStore(t, rdb, "")
	for _, ttl := range []time.Duration{time.Minute, 0} {
		r := request(rand.Text())
		require.NoError(t, rdb.Set(t.Context(), r.Key, "of another library", ttl).Err())
		var held *driver.HeldError
		_, err := s.Acquire(t.Context(), r)
		require.ErrorAs(t, err, &held)
		assert.LessOrEqual(t, held.ExpiresIn, ttl)
		assert.Equal(t, ttl > 0, held.ExpiresIn > 0, "0 means that it does not expire")
		info, err := s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		require.Len(t, info.Holders, 1)
		assert.Equal(t, driver.ClientName("of another library"), info.Holders[0].Client)
		out := make([]renewal.Outcome, 1)
		require.NoError(t, s.Renew(t.Context(), []driver.Lease{{Request: r}}, out))
		assert.Equal(t, renewal.LostTaken, out[0])
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), driver.ErrNotHeld)
		assert.Equal(t, "of another library", rdb.Get(t.Context(), r.Key).Val())
		require.NoError(t, s.ForceRelease(t.Context(), r.Key))
		assert.Zero(t, rdb.Exists(t.Context(), r.Key).Val())
		require.ErrorIs(t, s.ForceRelease(t.Context(), r.Key), driver.ErrNotHeld)
		info, err = s.Inspect(t.Context(), r.Key)
		require.NoError(t, err)
		assert.Empty(t, info.Holders)
	}
}

func TestTombstonesAreInTheSlotOfTheLock(t *testing.T) {
	for _, name := range []string{"a", "{a}b", "a{b}c", "{}a", "a}b", "}{", "{a", "a{}b{c}", "{a}{b}", "}", "{}"} {
		k := tombstoneKey(name, "owner")
		assert.Equal(t, redisconn.SlotOf(name), redisconn.SlotOf(k), "%s and %s", name, k)
		assert.NotEqual(t, tombstoneKey(name, "other"), k)
	}
}

// SET is refused when the server is out of memory. That is no answer about the lock.
func TestAServerWithoutMemory(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	rdb := server.Client(t)
	s := newStore(t, rdb, "")
	l, err := s.Acquire(t.Context(), request("held"))
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err = s.Acquire(t.Context(), request("other"))
	require.ErrorContains(t, err, "OOM")
	require.NotErrorIs(t, err, driver.ErrNotAcquired)
	l.TTL = time.Hour
	out := make([]renewal.Outcome, 1)
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{l}, out), "a renewal needs no memory")
	assert.Equal(t, renewal.Renewed, out[0])
	assert.Greater(t, rdb.PTTL(t.Context(), "held").Val(), 59*time.Minute)
	require.NoError(t, s.Release(t.Context(), l))
}

// The leases of a slot that moves to another node are renewed there, and released after it moves back.
func TestLeasesOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := testredis.StartCluster(t, 2, false)
	rdb := cluster.Client(t)
	s := newStore(t, rdb, "")
	var batch []driver.Lease
	for i := range 10 {
		l, err := s.Acquire(t.Context(), request(fmt.Sprint("{tag}", i)))
		require.NoError(t, err)
		batch = append(batch, l)
	}
	slot := int(redisconn.SlotOf("tag"))
	from, to := cluster.Masters[0], cluster.Masters[1]
	if slot >= redisconn.SlotCount/2 {
		from, to = to, from
	}
	require.NoError(t, cluster.Move(t.Context(), slot, from, to))
	out := make([]renewal.Outcome, len(batch))
	require.NoError(t, s.Renew(t.Context(), batch, out))
	for i := range batch {
		assert.Equal(t, renewal.Renewed, out[i])
	}
	open := func(node *testredis.Server, state string, other *testredis.Server) {
		id := other.Client(t).Do(t.Context(), "cluster", "myid").Val()
		require.NoError(t, node.Client(t).Do(t.Context(), "cluster", "setslot", slot, state, id).Err())
	}
	open(from, "importing", to)
	open(to, "migrating", from)
	stray := batch[0]
	require.NoError(t, to.Client(t).Del(t.Context(), stray.Key).Err())
	out = make([]renewal.Outcome, 1)
	require.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{stray}, out), rediskit.ErrElsewhere, "neither node has the key now")
	assert.Equal(t, renewal.Unknown, out[0])
	require.NoError(t, rdb.Set(t.Context(), stray.Key, stray.Owner, time.Minute).Err())

	require.NoError(t, cluster.Move(t.Context(), slot, to, from))
	released := make([]error, len(batch))
	require.NoError(t, s.ReleaseAll(t.Context(), batch, released))
	for i, l := range batch {
		require.NoError(t, released[i])
		assert.Zero(t, rdb.Exists(t.Context(), l.Key).Val())
	}
}

func TestInputIsCheckedBeforeAnyIO(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = rdb.Close() }()
	s := newStore(t, rdb, "")
	for what, c := range map[string]struct {
		change func(r *driver.Request)
		err    error
	}{
		"an empty key":   {func(r *driver.Request) { r.Key = "" }, driver.ErrBadKey},
		"another mode":   {func(r *driver.Request) { r.Mode = driver.Read }, errors.ErrUnsupported},
		"no owner":       {func(r *driver.Request) { r.Owner = "" }, driver.ErrNotAcquired},
		"a TTL of 1 ns":  {func(r *driver.Request) { r.TTL = 1 }, driver.ErrBadTTL},
		"a negative TTL": {func(r *driver.Request) { r.TTL = -time.Second }, driver.ErrBadTTL},
	} {
		r := request("k")
		c.change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorIs(t, err, c.err, what)
		assert.Contains(t, err.Error(), "redlock: acquire", what)
		require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r}), c.err, what)
		require.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{{Request: r}}, make([]renewal.Outcome, 1)), c.err, what)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	_, err := New(ring, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	for _, o := range []Options{{Timeout: -1}, {PoolSize: -1}, {PoolSize: 10_001}} {
		_, err := New(rdb, &o)
		require.ErrorContains(t, err, "redlock: Options.")
	}
	var zero Store
	_, err = zero.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, rediskit.ErrZeroStore)
	require.ErrorIs(t, zero.Renew(t.Context(), []driver.Lease{{Request: request("k")}}, make([]renewal.Outcome, 1)), rediskit.ErrZeroStore)
	require.ErrorIs(t, zero.Close(), rediskit.ErrZeroStore)
	_, err = s.Import(driver.Lease{Request: request("k"), Token: 1})
	require.ErrorContains(t, err, "token must be 0")
}

func TestAClosedStore(t *testing.T) {
	t.Parallel()
	s := newStore(t, shared.Server(t).Client(t), rand.Text())
	l, err := s.Acquire(t.Context(), request("k"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrStoreClosed)
	require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrStoreClosed)
	require.ErrorIs(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)), driver.ErrStoreClosed)
}

// A server that restarts without data is a fail-over, because its run_id has changed.
func TestARestartIsTheCauseOfALoss(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	renewed := make(chan struct{}, 1000)
	hooks := &lock.Hooks{BatchDone: func(renewal.BatchInfo) { renewed <- struct{}{} }}
	client, err := lock.New(newStore(t, srv.Client(t), ""), &lock.Options{
		Terms: lock.Terms{TTL: 5 * time.Second}, Hooks: hooks,
	})
	require.NoError(t, err)
	defer client.Close(t.Context())
	held, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	<-renewed
	srv.Kill()
	require.NoError(t, srv.Restart())
	_, err = client.Inspect(t.Context(), "other") // by a new connection; so the next renewal asks who answers
	require.NoError(t, err)
	<-held.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, held.Err(), &lost)
	assert.Equal(t, renewal.CauseFailover, lost.Cause(), lost.Seen())
}
