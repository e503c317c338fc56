package check

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

func request(key, owner string, ttl time.Duration) driver.Request {
	return driver.Request{Key: key, Owner: owner, TTL: ttl}
}

func leases(t testing.TB, client *clientv3.Client) int {
	t.Helper()
	all, err := client.Leases(t.Context())
	require.NoError(t, err)
	return len(all.Leases)
}

func TestLocksShareOneEtcdLease(t *testing.T) {
	client := connect(t, startCluster(t, 1)...)
	s := open(t, client)
	var batch []driver.Lease
	for i := range 300 {
		l, err := s.Acquire(t.Context(), request(fmt.Sprint(i), "client:1", time.Minute-time.Duration(i)*time.Millisecond))
		require.NoError(t, err)
		batch = append(batch, l)
	}
	assert.Equal(t, 1, leases(t, client), "TTLs are rounded up to the same second")
	out := make([]renewal.Outcome, len(batch))
	require.NoError(t, s.Renew(t.Context(), batch, out))
	for i, o := range out {
		require.Equal(t, renewal.Renewed, o, i)
	}
	require.NoError(t, s.Close())
	assert.Zero(t, leases(t, client), "Close revokes the lease")
	left, err := client.Get(t.Context(), "leasewheel/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	assert.Zero(t, left.Count, "and all locks are free")
}

// The operator revokes the session of a client that holds a lock.
func TestARevokedSession(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second
	client := connect(t, startCluster(t, 1)...)
	s := open(t, client)
	locks, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: ttl}})
	require.NoError(t, err)
	defer locks.Close(context.Background())
	held, err := locks.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	got, err := client.Get(t.Context(), lockKey("k"))
	require.NoError(t, err)
	_, err = client.Revoke(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	require.NoError(t, err)

	next, err := s.Acquire(t.Context(), request("k", "another:1", ttl))
	require.NoError(t, err, "the store asks with another session")
	assert.Greater(t, next.Token, held.Token())
	select {
	case <-held.Done():
	case <-time.After(time.Minute):
		require.Fail(t, "the holder is not told")
	}
	var lost *renewal.LostError
	require.ErrorAs(t, held.Err(), &lost)
	assert.Equal(t, renewal.ReasonNotOwned, lost.Reason)
	require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrLost)
	out := make([]renewal.Outcome, 1)
	require.NoError(t, s.Renew(t.Context(), []driver.Lease{next}, out))
	assert.Equal(t, renewal.Renewed, out[0])
}

func TestAServerWithALongerMinimumTTL(t *testing.T) {
	t.Parallel()
	client := connect(t, startCluster(t, 1, "-election=10000")...)
	s := open(t, client)
	_, err := s.Acquire(t.Context(), request("k", "client:1", 10*time.Second))
	require.ErrorIs(t, err, driver.ErrBadTTL)
	require.ErrorContains(t, err, "Options.MinTTL")
	assert.Zero(t, leases(t, client))
	_, err = s.Acquire(t.Context(), request("k", "client:1", 15*time.Second))
	require.NoError(t, err)
}

// A member hangs in the middle of an acquisition. The other members answer, so a renewal must not
// wait for it, and neither must acquisitions without end.
func TestRenewalsDoNotWaitForAnAcquisition(t *testing.T) {
	var hangs atomic.Bool
	hung := make(chan struct{}, 16)
	client := connectWith(t, startCluster(t, 1)[0], grpc.WithChainStreamInterceptor(
		func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			if strings.HasSuffix(method, "/LeaseKeepAlive") && hangs.Load() {
				hung <- struct{}{}
				<-ctx.Done()
			}
			return next(ctx, d, c, method, o...)
		},
	))
	const ttl = 15 * time.Second
	s := open(t, client)
	held, err := s.Acquire(t.Context(), request("held", "a:1", ttl))
	require.NoError(t, err)
	time.Sleep(time.Until(held.Sent.Add(ttl/3 + time.Millisecond))) // the next acquisition renews the session

	hangs.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, request("k", "b:1", ttl))
		ended <- err
	}()
	for range 3 { // the last attempt has no bound of its own
		<-hung
	}
	hangs.Store(false)
	renewing, end := context.WithTimeout(t.Context(), time.Until(held.Sent.Add(ttl)))
	defer end()
	require.Equal(t, renewal.Renewed, renewOnce(renewing, s, held))
	require.Empty(t, ended, "the acquisition is still under way")
	require.Error(t, <-ended)
	require.NoError(t, ctx.Err(), "the acquisition has ended by itself")
	_, err = s.Acquire(t.Context(), request("k", "c:1", ttl))
	require.NoError(t, err)
}
