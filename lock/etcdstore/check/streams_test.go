package check

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// streams counts the streams of keep-alives, the watches and the transactions of a client.
type streams struct{ keepAlives, watches, txns atomic.Int32 }

func (s *streams) stream(
	ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	switch {
	case strings.HasSuffix(method, "/LeaseKeepAlive"):
		s.keepAlives.Add(1)
	case strings.HasSuffix(method, "/Watch"):
		stream, err := next(ctx, d, c, method, o...)
		return &watchStream{stream, &s.watches}, err
	}
	return next(ctx, d, c, method, o...)
}

// watchStream counts the watches that a client begins. All share one stream.
type watchStream struct {
	grpc.ClientStream
	begun *atomic.Int32
}

func (s *watchStream) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCreateRequest() != nil {
		s.begun.Add(1)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *streams) unary(ctx context.Context, method string, req, reply any, c *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if _, ok := req.(*pb.TxnRequest); ok {
		s.txns.Add(1)
	}
	return next(ctx, method, req, reply, c, o...)
}

// A server with passwords computes a hash for each stream that begins.
func TestRenewalsShareAStream(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	n := new(streams)
	s := open(t, connectWith(t, members[0], grpc.WithChainStreamInterceptor(n.stream)))
	l, err := s.Acquire(t.Context(), request("k", "a:1", time.Minute))
	require.NoError(t, err)
	for range 20 {
		require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	}
	assert.EqualValues(t, 1, n.keepAlives.Load())

	members[0].kill()
	members[0].start(t)
	require.Eventually(t, func() bool { return renewOnce(t.Context(), s, l) == renewal.Renewed }, patience, 50*time.Millisecond)
	for range 20 {
		require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	}
	began := n.keepAlives.Load()
	for range 20 {
		require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	}
	assert.Equal(t, began, n.keepAlives.Load())
}

// A renewal that the caller gives up ends the stream, because its answer may come later.
func TestAnAnswerOfAnotherRenewalDoesNotCount(t *testing.T) {
	t.Parallel()
	n := new(streams)
	var hangs atomic.Bool
	hung := make(chan struct{}, 1)
	s := open(t, connectWith(t, startCluster(t, 1)[0], grpc.WithChainStreamInterceptor(n.stream,
		func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := next(ctx, d, c, method, o...)
			return &hangingStream{stream, &hangs, hung}, err
		},
	)))
	l, err := s.Acquire(t.Context(), request("k", "a:1", time.Minute))
	require.NoError(t, err)
	require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hung
		cancel()
	}()
	require.Equal(t, renewal.Unknown, renewOnce(ctx, s, l))
	hangs.Store(false)
	require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	assert.EqualValues(t, 2, n.keepAlives.Load())
}

// hangingStream loses an answer while hangs is set.
type hangingStream struct {
	grpc.ClientStream
	hangs *atomic.Bool
	hung  chan<- struct{}
}

func (s *hangingStream) RecvMsg(m any) error {
	if _, ok := m.(*pb.LeaseKeepAliveResponse); ok && s.hangs.Load() {
		s.hung <- struct{}{}
		<-s.Context().Done()
		return s.Context().Err()
	}
	return s.ClientStream.RecvMsg(m)
}

// A waiter asks from time to time, and its watch goes on meanwhile.
func TestAWaiterWatchesOnce(t *testing.T) {
	t.Parallel()
	n := new(streams)
	members := startCluster(t, 1)
	h := open(t, connect(t, members...))
	s := open(t, connectWith(t, members[0], grpc.WithChainStreamInterceptor(n.stream), grpc.WithChainUnaryInterceptor(n.unary)))
	held, err := h.Acquire(t.Context(), request("k", "a:1", time.Minute))
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), request("k", "b:1", awaitedTTL), func() {})
		got <- err
	}()
	require.Eventually(t, func() bool { return n.watches.Load() > 0 }, patience, 10*time.Millisecond)
	asked := n.txns.Load()
	require.Eventually(t, func() bool { return n.txns.Load() >= asked+3 }, patience, 10*time.Millisecond)
	assert.EqualValues(t, 1, n.watches.Load())
	require.NoError(t, h.Release(t.Context(), held))
	require.NoError(t, <-got)
}

func TestAServerWithSmallTransactions(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1, "-max-txn-ops=16")
	s := open(t, connect(t, members...))
	var batch []driver.Lease
	for i := range 100 {
		l, err := s.Acquire(t.Context(), request(fmt.Sprint(i), "client:1", time.Minute))
		require.NoError(t, err)
		batch = append(batch, l)
	}
	out := make([]renewal.Outcome, len(batch))
	require.NoError(t, s.Renew(t.Context(), batch, out))
	errs := make([]error, len(batch))
	require.NoError(t, s.ReleaseAll(t.Context(), batch, errs))
	for i := range batch {
		assert.Equal(t, renewal.Renewed, out[i])
		assert.NoError(t, errs[i])
	}
}

// The program uses all calls that the server allows on the connection of the client that it has passed in.
func TestAConnectionWithoutRoom(t *testing.T) {
	t.Parallel()
	const room = 8
	server := startCluster(t, 1, fmt.Sprint("-max-concurrent-streams=", room))[0]
	client := connect(t, server)
	s := open(t, client)
	l := acquire(t, s, driver.Request{Key: "held", Owner: "a:1", TTL: 4 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	var program sync.WaitGroup
	for range room {
		program.Go(func() {
			if w, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx); err == nil {
				_, _ = w.Recv()
			}
		})
	}
	require.Eventually(t, func() bool {
		_, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: 4 * time.Second})
		return err != nil && strings.Contains(err.Error(), "--max-concurrent-streams")
	}, patience, time.Millisecond)
	require.ErrorContains(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)), "--max-concurrent-streams")
	cancel()
	program.Wait()
	acquire(t, s, driver.Request{Key: "k", Owner: "a:1", TTL: 4 * time.Second})
}
