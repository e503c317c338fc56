package check

import (
	"context"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// awaitedTTL is a TTL whose end the tests await. A busy machine may pause for most of it.
const awaitedTTL = 12 * time.Second

// withLostAnswers returns a store of a client that loses the answers to the requests which write a key
// with this beginning. The channel gets each of them, and whether it is executed first is up to now.
func withLostAnswers(t *testing.T, m *member, key string, now bool) (*etcdstore.Store, <-chan func() *pb.TxnResponse) {
	t.Helper()
	lost := make(chan func() *pb.TxnResponse, 16)
	return open(t, intercepted(t, m, func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		if !putsKey(r, key) {
			_, err := send(ctx)
			return err
		}
		execute := func() *pb.TxnResponse {
			answer, err := send(context.WithoutCancel(ctx))
			assert.NoError(t, err)
			return answer
		}
		if now {
			execute()
		}
		lost <- execute
		return status.Error(codes.Unavailable, "the answer is lost")
	})), lost
}

// putsKey reports whether a transaction puts a key with this beginning.
func putsKey(r *pb.TxnRequest, beginning string) bool {
	for _, op := range r.Success {
		if p := op.GetRequestPut(); p != nil && strings.HasPrefix(string(p.Key), beginning) {
			return true
		}
	}
	return false
}

// renewUntil renews a lease, and so its session, until a condition holds.
func renewUntil(t *testing.T, s *etcdstore.Store, l driver.Lease, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); <-time.After(awaitedTTL / 20) {
		require.Less(t, time.Since(start), patience)
		require.Equal(t, renewal.Renewed, renewOnce(t.Context(), s, l))
	}
}

func has(t *testing.T, client *clientv3.Client, key string) bool {
	t.Helper()
	got, err := client.Get(t.Context(), key, clientv3.WithCountOnly())
	require.NoError(t, err)
	return got.Count > 0
}

// Nobody releases a lock whose grant got no answer, and the session of the client goes on.
func TestAGrantWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s, _ := withLostAnswers(t, members[0], lockKey("ghost"), true)
	held := acquire(t, s, request("held", "a:1", awaitedTTL))
	_, err := s.Acquire(t.Context(), request("ghost", "a:2", awaitedTTL))
	require.Error(t, err)
	require.True(t, has(t, client, lockKey("ghost")))
	renewUntil(t, s, held, func() bool { return !has(t, client, lockKey("ghost")) })
}

// The grant is executed when the store has looked for it in vain.
func TestALateGrantIsRefused(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s, lost := withLostAnswers(t, members[0], lockKey("ghost"), false)
	held := acquire(t, s, request("held", "a:1", awaitedTTL))
	_, err := s.Acquire(t.Context(), request("ghost", "a:2", awaitedTTL))
	require.Error(t, err)
	renewUntil(t, s, held, func() bool { return has(t, client, prefix+"t/a:2") })
	assert.False(t, (<-lost)().Succeeded)
}

// A waiter gives up after a request for a place that got no answer, and nobody releases it.
func TestAPlaceWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	place := prefix + "q/" + hex.EncodeToString([]byte("k")) + "/"
	s, lost := withLostAnswers(t, members[0], place, true)
	held := acquire(t, s, request("k", "a:1", awaitedTTL))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-lost
		cancel()
	}()
	_, err := s.Wait(ctx, request("k", "a:2", awaitedTTL), func() {})
	require.Error(t, err)
	require.True(t, has(t, client, place+"a:2"))
	renewUntil(t, s, held, func() bool { return !has(t, client, place+"a:2") })
}

// A server without space refuses tombstones. The lock ends all the same, and the tombstone follows.
func TestAGrantWithoutAnAnswerEndsOnAFullServer(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	s, _ := withLostAnswers(t, members[0], lockKey("ghost"), true)
	held := acquire(t, s, request("held", "a:1", awaitedTTL))
	_, err := s.Acquire(t.Context(), request("ghost", "a:2", awaitedTTL))
	require.Error(t, err)
	alarm := func(action pb.AlarmRequest_AlarmAction) {
		at, err := client.Status(t.Context(), members[0].client)
		require.NoError(t, err)
		_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
			Action: action, Alarm: pb.AlarmType_NOSPACE, MemberID: at.Header.MemberId,
		})
		require.NoError(t, err)
	}
	alarm(pb.AlarmRequest_ACTIVATE)
	_, err = s.Acquire(t.Context(), request("k", "a:3", awaitedTTL))
	require.ErrorIs(t, err, driver.ErrNotSent)
	renewUntil(t, s, held, func() bool { return !has(t, client, lockKey("ghost")) })
	assert.False(t, has(t, client, prefix+"t/a:2"))
	alarm(pb.AlarmRequest_DEACTIVATE)
	renewUntil(t, s, held, func() bool { return has(t, client, prefix+"t/a:2") })
}

// A move to another session is executed without an answer, and nobody renews the lease any more. The
// other session goes on, and the one that the lease had does not.
func TestALeaseThatAMoveTookAwayEnds(t *testing.T) {
	t.Parallel()
	members := startCluster(t, 1)
	client := connect(t, members...)
	var loses atomic.Bool
	s := open(t, intercepted(t, members[0], func(ctx context.Context, r *pb.TxnRequest, send sendTxn) error {
		_, err := send(ctx)
		if putsKey(r, lockKey("k")) && loses.Load() {
			return status.Error(codes.Unavailable, "the answer is lost")
		}
		return err
	}))
	l := acquire(t, s, request("k", "a:1", awaitedTTL))
	other := acquire(t, s, request("other", "a:2", 2*awaitedTTL))
	loses.Store(true)
	l.TTL = 2 * awaitedTTL
	require.Equal(t, renewal.Unknown, renewOnce(t.Context(), s, l))
	renewUntil(t, s, other, func() bool { return !has(t, client, lockKey("k")) })
}
