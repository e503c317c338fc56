package check

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// sendTxn sends a transaction to the server.
type sendTxn func(ctx context.Context) (*pb.TxnResponse, error)

// intercepted returns a client whose transactions go through f.
func intercepted(t *testing.T, m *member, f func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error) *clientv3.Client {
	t.Helper()
	return connectWith(t, m, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
			r, ok := req.(*pb.TxnRequest)
			if !ok {
				return next(ctx, method, req, reply, conn, o...)
			}
			return f(ctx, r, func(ctx context.Context) (*pb.TxnResponse, error) {
				answer := reply.(*pb.TxnResponse)
				return answer, next(ctx, method, req, answer, conn, o...)
			})
		},
	))
}

// connectWith returns a client of a member, which is closed with the test.
func connectWith(t *testing.T, m *member, o ...grpc.DialOption) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, Logger: zap.NewNop(), DialOptions: o})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func renewOnce(ctx context.Context, s driver.Store, l driver.Lease) renewal.Outcome {
	out := make([]renewal.Outcome, 1)
	_ = s.Renew(ctx, []driver.Lease{l}, out)
	return out[0]
}

// A renewal with another TTL gets no answer, and is executed after a later renewal was confirmed. It
// must not attach the lease to the session of the other TTL, which nobody renews.
func TestALateRenewalDoesNotMoveTheLease(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	late := make(chan func() bool, 1) // executes the request, and reports whether it has written
	ctx, giveUp := context.WithCancel(t.Context())
	var kept atomic.Bool
	s := open(t, intercepted(t, members[0], func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		moves := len(r.Compare) == 2 && r.Compare[0].Target == pb.Compare_MOD && strings.Contains(string(r.Compare[0].Key), "/l/")
		if !moves || !kept.CompareAndSwap(false, true) {
			_, err := send(ctx)
			return err
		}
		late <- func() bool {
			answer, err := send(context.WithoutCancel(ctx))
			return assert.NoError(t, err) && answer.Succeeded
		}
		giveUp()
		<-ctx.Done()
		return ctx.Err()
	}))
	l, err := s.Acquire(t.Context(), request("k", "a:1", 11*time.Second))
	require.NoError(t, err)
	shorter := l
	shorter.TTL = 10 * time.Second
	for time.Until(l.Sent.Add(l.TTL)) > shorter.TTL { // then it moves to the other session
		time.Sleep(10 * time.Millisecond)
	}
	require.Equal(t, renewal.Unknown, renewOnce(ctx, s, shorter))
	require.True(t, kept.Load(), "the renewal did not move the lease")
	execute := <-late
	require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	assert.False(t, execute(), "the late request has written")
}

// The removal of a place that a waiter did not keep is slow, and the waiter has the lock meanwhile.
func TestTheRemovalOfAPlaceLeavesTheLock(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	h := open(t, connect(t, members...))
	var armed atomic.Bool
	var asks, removals atomic.Int32
	asked, removing := make(chan struct{}), make(chan struct{})
	granted, removed := make(chan struct{}), make(chan struct{})
	a := open(t, intercepted(t, members[0], func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		if armed.Load() {
			switch {
			case puts(r, "w:1"):
				switch asks.Add(1) {
				case 1: // gets no answer
					close(asked)
					<-ctx.Done()
					return ctx.Err()
				case 2:
					<-removing
				}
			case removes(r, "/w:1") && removals.Add(1) == 1:
				close(removing)
				<-granted
				defer close(removed)
			}
		}
		_, err := send(ctx)
		return err
	}))
	const ttl = 6 * time.Second
	held, err := h.Acquire(t.Context(), request("k", "h:1", 30*time.Second))
	require.NoError(t, err)
	x, err := a.Acquire(t.Context(), request("x", "x:1", ttl))
	require.NoError(t, err)
	got := make(chan driver.Lease, 1)
	go func() {
		l, err := a.Wait(t.Context(), request("k", "w:1", ttl), func() {})
		assert.NoError(t, err)
		close(granted)
		got <- l
	}()
	require.Eventually(t, func() bool { return waiting(t, h, "k") == 1 }, patience, time.Millisecond)
	// The place ends a TTL after its last request. The waiter asks again after a third of it, waits
	// half a TTL for an answer, and asks once more. A third of a TTL is left for the removal.
	armed.Store(true)
	<-asked
	require.NoError(t, h.Release(t.Context(), held))
	var w driver.Lease
	start := time.Now()
	for done := false; !done; { // the renewals of another lease remove what has ended
		require.Less(t, time.Since(start), patience, "there was no removal")
		select {
		case w = <-got:
		case <-removed:
			done = w.Token > 0
		case <-time.After(ttl / 30):
			require.Equal(t, renewal.Renewed, renewOnce(t.Context(), a, x))
		}
		if w.Token > 0 {
			require.Equal(t, renewal.Renewed, renewOnce(t.Context(), a, w))
		}
	}
	_, err = h.Acquire(t.Context(), request("k", "c:1", ttl))
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	assert.Equal(t, renewal.Renewed, renewOnce(t.Context(), a, w))
}

// puts reports whether a transaction grants a lock to an owner.
func puts(r *pb.TxnRequest, owner string) bool {
	for _, op := range r.Success {
		if p := op.GetRequestPut(); p != nil && strings.Contains(string(p.Key), "/l/") && strings.Contains(string(p.Value), owner) {
			return true
		}
	}
	return false
}

// removes reports whether a transaction removes a key that ends so.
func removes(r *pb.TxnRequest, end string) bool {
	for _, op := range r.Success {
		for _, op := range op.GetRequestTxn().GetSuccess() {
			if d := op.GetRequestDeleteRange(); d != nil && strings.HasSuffix(string(d.Key), end) {
				return true
			}
		}
	}
	return false
}
