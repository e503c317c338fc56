package check

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasewheel/leasewheel/lock/driver"
)

const stateKey = prefix + "s/k"

// stateful returns a request of an owner for the lock k and its state.
func stateful(owner string) driver.Request {
	r := request("k", owner, time.Minute)
	r.Attrs = &driver.Attrs{Stateful: true}
	return r
}

func acquireStateful(t *testing.T, s driver.Store, owner string) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), stateful(owner))
	require.NoError(t, err)
	require.NotNil(t, l.Saved)
	return l
}

// Saves get no answer. They are executed after a later save of their holder, and after the next holder was
// granted the lock.
func TestLateSaves(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	s, late := withLostAnswers(t, members[0], stateKey, false)
	other := open(t, connect(t, members...))
	l := acquireStateful(t, s, "a:1")
	require.Error(t, s.Save(t.Context(), l, 1, []byte("one"), time.Minute))
	require.NoError(t, other.Save(t.Context(), l, 2, []byte("two"), time.Minute))
	assert.False(t, (<-late)().Succeeded, "after a later save")
	require.Error(t, s.Save(t.Context(), l, 3, []byte("three"), time.Minute))
	require.NoError(t, s.Release(t.Context(), l))
	execute := <-late
	assert.False(t, execute().Succeeded, "the lock is free")
	next := acquireStateful(t, other, "b:1")
	assert.Equal(t, driver.Saved{Data: []byte("two"), Token: l.Token}, *next.Saved)
	assert.False(t, execute().Succeeded, "another holds the lock")
	assert.Equal(t, next.Saved, acquireStateful(t, other, "b:1").Saved)
}

// A save is executed without an answer, and its etcd lease was not renewed. The same save again renews it.
func TestASaveWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s, _ := withLostAnswers(t, members[0], stateKey, true)
	other := open(t, client)
	l := acquireStateful(t, s, "a:1")
	require.Error(t, s.Save(t.Context(), l, 1, []byte("one"), time.Minute))
	var left int64
	require.Eventually(t, func() bool { left = stateLeft(t, client); return left < 58 }, patience, 50*time.Millisecond)
	require.NoError(t, other.Save(t.Context(), l, 1, []byte("one"), time.Minute))
	assert.Greater(t, stateLeft(t, client), left)
	assert.Equal(t, driver.Saved{Data: []byte("one"), Token: l.Token}, *acquireStateful(t, other, "a:1").Saved)
}

// stateLeft returns the seconds until the state ends.
func stateLeft(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	got, err := client.Get(t.Context(), stateKey)
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	left, err := client.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	require.NoError(t, err)
	return left.TTL
}

// A key has one etcd lease for its state, whatever the number of saves, holders and TTLs.
func TestStatesLeaveNoLeases(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s := open(t, client)
	for i, ttl := range []time.Duration{time.Hour, time.Hour, 2 * time.Hour, time.Minute} {
		l := acquireStateful(t, s, "a:1")
		require.NoError(t, s.Save(t.Context(), l, 1, nil, ttl))
		require.NoError(t, s.Save(t.Context(), l, 2, nil, ttl))
		require.NoError(t, s.Save(t.Context(), l, 1, nil, 3*time.Hour), "executed late")
		assert.Equal(t, 2, leases(t, client), "holder %d: one of the locks, one of the state", i)
		require.NoError(t, s.Release(t.Context(), l))
	}
	require.NoError(t, s.Forget(t.Context(), "k"))
	assert.Equal(t, 1, leases(t, client))
	assert.False(t, has(t, client, stateKey))
}

// The server refuses a save, after it has granted a lease for it.
func TestARefusedSaveLeavesNoLease(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s := open(t, intercepted(t, members[0], func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		if putsKey(r, stateKey) {
			return rpctypes.ErrGRPCNoSpace
		}
		_, err := send(ctx)
		return err
	}))
	l := acquireStateful(t, s, "a:1")
	for range 3 {
		require.ErrorIs(t, s.Save(t.Context(), l, 1, nil, time.Hour), rpctypes.ErrNoSpace)
	}
	assert.Equal(t, 1, leases(t, client), "that of the lock")
}

// The state changes eight times between the read and the write of a save. Then a save with a higher
// number comes in between, after which the save is done.
func TestASaveThatOthersBeat(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	other := open(t, client)
	var l driver.Lease
	var writes atomic.Int32
	s := open(t, intercepted(t, members[0], func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		if putsKey(r, stateKey) {
			switch n := writes.Add(1); {
			case n <= 8:
				return nil // the answer is that the comparison has failed
			case n == 10:
				assert.NoError(t, other.Save(ctx, l, 20, []byte("other"), 2*time.Hour))
			}
		}
		_, err := send(ctx)
		return err
	}))
	l = acquireStateful(t, s, "a:1")
	require.NoError(t, s.Save(t.Context(), l, 9, []byte("nine"), time.Hour))
	assert.EqualValues(t, 9, writes.Load())
	assert.Equal(t, "nine", string(acquireStateful(t, other, "a:1").Saved.Data))
	assert.Equal(t, 2+1, leases(t, client), "two of the locks of two stores, one of the state")
	require.NoError(t, s.Save(t.Context(), l, 10, []byte("ten"), 2*time.Hour))
	assert.EqualValues(t, 10, writes.Load())
	assert.Equal(t, "other", string(acquireStateful(t, other, "a:1").Saved.Data))
	assert.Equal(t, 2+1, leases(t, client))
}

// A member does not answer the keep-alive of a state. Saves of other keys wait for that one.
func TestAKeepAliveOfAStateThatHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hung := make(chan struct{}, 16)
	s := open(t, connectWith(t, startCluster(t, 1)[0], grpc.WithChainStreamInterceptor(
		func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := next(ctx, d, c, method, o...)
			return &hangingStream{stream, &hangs, hung}, err
		},
	)))
	l := acquireStateful(t, s, "a:1")
	other := stateful("a:2")
	other.Key = "other"
	o, err := s.Acquire(t.Context(), other)
	require.NoError(t, err)
	hangs.Store(true)
	require.NoError(t, s.Save(t.Context(), l, 1, nil, time.Hour), "the first one needs no keep-alive")
	require.NoError(t, s.Save(t.Context(), o, 1, nil, time.Hour), "the first one needs no keep-alive")
	var calls sync.WaitGroup
	calls.Go(func() { assert.NoError(t, s.Save(t.Context(), l, 2, nil, time.Hour)) })
	calls.Go(func() { assert.NoError(t, s.Save(t.Context(), o, 2, nil, time.Hour)) })
	<-hung
	hangs.Store(false)
	calls.Wait()
}

func TestAForeignState(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s := open(t, client)
	l := acquireStateful(t, s, "a:1")
	for _, value := range []string{"", "foreign", "leasewheel1 1 1 60", "leasewheel1 1 1 60 without a lease"} {
		_, err := client.Put(t.Context(), stateKey, value)
		require.NoError(t, err)
		require.ErrorIs(t, s.Save(t.Context(), l, 1, nil, time.Minute), driver.ErrWrongType)
		_, err = s.Acquire(t.Context(), l.Request)
		require.EqualError(t, err, `etcdstore: acquire: the key of the state holds something else`)
		require.NoError(t, s.Release(t.Context(), l))
		_, err = s.Acquire(t.Context(), stateful("b:1"))
		require.Error(t, err)
		require.NotErrorIs(t, err, driver.ErrWrongType)
		require.NoError(t, s.Release(t.Context(), driver.Lease{Request: stateful("b:1")}), "it was granted")
		got, err := client.Get(t.Context(), stateKey)
		require.NoError(t, err)
		assert.Equal(t, value, string(got.Kvs[0].Value))
		_, err = client.Delete(t.Context(), stateKey)
		require.NoError(t, err)
		l = acquireStateful(t, s, "a:1")
	}
}
