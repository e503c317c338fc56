package check

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// watches counts what a client receives for its watches.
type watches struct{ created, deletions atomic.Int32 }

func (w *watches) intercept(
	ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := next(ctx, d, c, method, o...)
	return countedStream{stream, w}, err
}

type countedStream struct {
	grpc.ClientStream
	of *watches
}

func (s countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	answer, ok := m.(*pb.WatchResponse)
	if err != nil || !ok {
		return err
	}
	if answer.Created {
		s.of.created.Add(1)
	}
	for _, e := range answer.Events {
		if e.Type == mvccpb.Event_DELETE {
			s.of.deletions.Add(1)
		}
	}
	return nil
}

// A release tells the first waiter that the lock is free. When that has left the queue, the second
// waiter is told that it is the first one.
func TestAReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	const waiters = 10
	w := new(watches)
	client := connectWith(t, startCluster(t, 1)[0], grpc.WithChainStreamInterceptor(w.intercept))
	s := open(t, client)
	l, err := s.Acquire(t.Context(), request("k", "holder:1", time.Minute))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	defer cancel()
	last := client.Watch(ctx, "last") // in the stream of the others, which has the order of the changes
	got, ended := make(chan driver.Lease, 1), make(chan struct{})
	for i := range waiters {
		go func() {
			defer func() { ended <- struct{}{} }()
			if l, err := s.Wait(ctx, request("k", fmt.Sprint("waiter:", i), time.Minute), func() {}); err == nil {
				got <- l
			}
		}()
	}
	require.Eventually(t, func() bool { return w.created.Load() >= waiters+1 }, patience, time.Millisecond, "all watch")
	require.NoError(t, s.Release(t.Context(), l))
	<-got
	_, err = client.Put(t.Context(), "last", "")
	require.NoError(t, err)
	require.NotEmpty(t, (<-last).Events)
	assert.EqualValues(t, 2, w.deletions.Load())
	cancel()
	for range waiters {
		<-ended
	}
}
