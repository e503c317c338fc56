package redisstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestSlotOf(t *testing.T) {
	t.Parallel()
	assert.EqualValues(t, 0x31c3%redisconn.SlotCount, redisconn.SlotOf("123456789"), "the check value in the specification")
	s := &Store{prefix: "lw:"}
	rdb := testredis.Start(t, "--cluster-enabled", "yes").Client(t)
	for _, name := range []string{"a", "name", "{", "{}", "{a}", "a}b", "a{b}c", "a}}", "\x00\xff", "é"} {
		for _, key := range all(s.keys(name, "owner")) {
			assert.EqualValues(t, rdb.ClusterKeySlot(t.Context(), key).Val(), redisconn.SlotOf(key), "%q", key)
			assert.Equal(t, redisconn.SlotOf(s.lockKey(name)), redisconn.SlotOf(key), "%q: all keys of a lock have one slot", key)
		}
	}
}

// nodeOfWires returns a store on a cluster of one node, whose replies come from answer.
func nodeOfWires(t *testing.T, answer func(addr string, command []string) string) (*Store, *testredis.Wire) {
	t.Helper()
	var addr string
	w := &testredis.Wire{}
	w.Answer = func(command []string) string {
		if command[0] == "cluster" {
			host, port, _ := net.SplitHostPort(addr)
			return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
		}
		return answer(addr, command)
	}
	addr = w.Client(t, redis.Options{}).Options().Addr
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() { rdb.Close() })
	return newStore(t, rdb, &Options{Timeout: long}), w
}

func TestRedirectionsAreBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"MOVED", "ASK"} {
		s, w := nodeOfWires(t, func(addr string, command []string) string {
			if command[0] == "asking" {
				return "+OK\r\n"
			}
			return "-" + kind + " 1 " + addr + "\r\n"
		})
		l := driver.Lease{Request: request("k"), Token: 17}
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorContains(t, err, kind)
		require.NotErrorIs(t, err, driver.ErrNotAcquired)
		assert.EqualValues(t, 1+redisconn.MaxRedirects, w.Evals.Load())
		err = unknown(t.Context(), t, s, l)
		require.ErrorContains(t, err, kind)
		assert.EqualValues(t, 2*(1+redisconn.MaxRedirects), w.Evals.Load())
	}
}

// Before Redis 7, each try gets an ASK and then a TRYAGAIN while a slot moves.
func TestAcquireWaitsForAMovingSlot(t *testing.T) {
	t.Parallel()
	const rounds = 2 * redisconn.MaxRedirects
	var evals atomic.Int64
	s, _ := nodeOfWires(t, func(addr string, command []string) string {
		if command[0] == "asking" {
			return "+OK\r\n"
		}
		switch n := evals.Add(1); {
		case n > 2*rounds:
			return "*2\r\n:1\r\n$2\r\n17\r\n"
		case n%2 == 0:
			return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
		default:
			return "-ASK 1 " + addr + "\r\n"
		}
	})
	l, err := s.Acquire(t.Context(), request("k"))
	require.NoError(t, err)
	assert.EqualValues(t, 17, l.Token)
}

// An error reply also makes the store ask the cluster whether another node serves the slot.
func TestErrorRepliesOfANodeLeaveTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{
		"CLUSTERDOWN The cluster is down", "READONLY You can't write", "LOADING Redis is loading", "BUSY Redis is busy", "OOM no memory",
		"MOVED", "MOVED 1", "ASK 1 nowhere", "CROSSSLOT Keys in request don't hash to the same slot",
	} {
		s, w := nodeOfWires(t, func(string, []string) string { return "-" + refusal + "\r\n" })
		l := driver.Lease{Request: request("k"), Token: 17}
		require.ErrorContains(t, unknown(t.Context(), t, s, l), refusal)
		err := s.Release(t.Context(), l)
		require.ErrorContains(t, err, refusal)
		require.NotErrorIs(t, err, driver.ErrNotHeld)
		assert.EqualValues(t, 2, w.Evals.Load(), "no request is sent twice")
	}
}

func TestAnUnservedSlotIsAnError(t *testing.T) {
	t.Parallel()
	w := &testredis.Wire{Answer: func(command []string) string {
		if command[0] == "cluster" {
			return "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n"
		}
		return "-ERR\r\n"
	}}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{w.Client(t, redis.Options{}).Options().Addr}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	l := driver.Lease{Request: request("k"), Token: 17}
	assert.Zero(t, s.Lane(l))
	require.ErrorContains(t, unknown(t.Context(), t, s, l, l), "no node of the cluster serves slot")
	_, err := s.Acquire(t.Context(), l.Request)
	require.ErrorContains(t, err, "no node of the cluster serves slot")
	assert.Zero(t, w.Evals.Load())
}

func TestCloseEndsCallsToAHangingCluster(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never replies
	require.NoError(t, err)
	defer listener.Close()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{listener.Addr().String()}})
	defer rdb.Close()
	s := newStore(t, rdb, &Options{Timeout: long})
	done := make(chan error, 2)
	go func() {
		_, err := s.Acquire(t.Context(), request("k"))
		done <- err
	}()
	go func() {
		out := make([]renewal.Outcome, 1)
		done <- s.Renew(t.Context(), []driver.Lease{{Request: request("k"), Token: 17}}, out)
	}()
	time.Sleep(50 * time.Millisecond)
	within(t, 0, soon, func() { require.NoError(t, s.Close()) })
	within(t, 0, soon, func() {
		for range cap(done) {
			assert.Error(t, <-done)
		}
	})
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), driver.ErrClosed)
}

func TestTheClusterSlotsFunctionOfTheUser(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	addr := shared.Server(t).Addr() // not a cluster
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
		if calls.Add(1) == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return []redis.ClusterSlot{{End: redisconn.SlotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	l := acquire(t, s, request("k"))
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
}
