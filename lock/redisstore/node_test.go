package redisstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	assert.EqualValues(t, 0x31c3%slotCount, slotOf("123456789"), "the check value of the specification")
	s := &Store{prefix: "lw:"}
	rdb := testredis.Start(t, "--cluster-enabled", "yes").Client(t)
	for _, name := range []string{"a", "name", "{", "{}", "{a}", "a}b", "a{b}c", "a}}", "\x00\xff", "é"} {
		for _, key := range all(s.keys(name, "owner")) {
			assert.EqualValues(t, rdb.ClusterKeySlot(t.Context(), key).Val(), slotOf(key), "%q", key)
			assert.Equal(t, slotOf(s.lockKey(name)), slotOf(key), "%q: all keys of a lock lie together", key)
		}
	}
}

func TestAddressesAsOthersSeeThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ teller, addr, want string }{
		{"10.0.0.1:6379", "10.0.0.2:7000", "10.0.0.2:7000"},
		{"10.0.0.1:6379", ":7000", "10.0.0.1:7000"},
		{"10.0.0.1:6379", "?:7000", "10.0.0.1:7000"},
		{"10.0.0.1:6379", "127.0.0.1:7000", "10.0.0.1:7000"},
		{"127.0.0.1:6379", "127.0.0.1:7000", "127.0.0.1:7000"},
		{"localhost:6379", "127.0.0.1:7000", "127.0.0.1:7000"},
		{"10.0.0.1:6380", "10.0.0.2:0", "10.0.0.2:6380"},
		{"[::2]:6379", "::3:7000", "[::3]:7000"},
		{"[::2]:6379", "[::3]:7000", "[::3]:7000"},
		{"", "node-1.example:7000", "node-1.example:7000"},
	} {
		got, ok := seenFrom(c.teller, c.addr)
		assert.True(t, ok)
		assert.Equal(t, c.want, got, "%s tells of %s", c.teller, c.addr)
	}
	for _, addr := range []string{"", "no port", ":7000"} {
		_, ok := seenFrom("", addr)
		assert.False(t, ok, addr)
	}
}

// nodeOfWires is a cluster of one node, which answers what the test wants.
func nodeOfWires(t *testing.T, answer func(addr string, command []string) string) (*Store, *wire) {
	t.Helper()
	var addr string
	w := &wire{}
	w.answer = func(command []string) string {
		if command[0] == "cluster" {
			host, port, _ := net.SplitHostPort(addr)
			return fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$%d\r\n%s\r\n:%s\r\n", len(host), host, port)
		}
		return answer(addr, command)
	}
	addr = w.client(t, redis.Options{}).Options().Addr
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	t.Cleanup(func() { rdb.Close() })
	return newStore(t, rdb, &Options{Timeout: long}), w
}

func TestRedirectionsHaveAnEnd(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"MOVED", "ASK"} {
		s, w := nodeOfWires(t, func(addr string, command []string) string {
			if command[0] == "asking" {
				return "+OK\r\n"
			}
			return "-" + kind + " 1 " + addr + "\r\n"
		})
		l := lock.Lease{Request: request("k"), Token: 17}
		_, err := s.Acquire(t.Context(), l.Request)
		require.ErrorContains(t, err, kind)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		assert.EqualValues(t, 1+maxRedirects, w.evals.Load())
		err = unknown(t.Context(), t, s, l)
		require.ErrorContains(t, err, kind)
		assert.EqualValues(t, 2*(1+maxRedirects), w.evals.Load())
	}
}

// Before Redis 7 each round begins with ASK while a slot is on its way.
func TestASlotOnItsWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	const rounds = 2 * maxRedirects
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

// TestWhatANodeRefusesIsUnknown, and the cluster is asked whether another serves.
func TestWhatANodeRefusesIsUnknown(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{
		"CLUSTERDOWN The cluster is down", "READONLY You can't write", "LOADING Redis is loading", "BUSY Redis is busy", "OOM no memory",
		"MOVED", "MOVED 1", "ASK 1 nowhere", "CROSSSLOT Keys in request don't hash to the same slot",
	} {
		s, w := nodeOfWires(t, func(string, []string) string { return "-" + refusal + "\r\n" })
		l := lock.Lease{Request: request("k"), Token: 17}
		require.ErrorContains(t, unknown(t.Context(), t, s, l), refusal)
		err := s.Release(t.Context(), l)
		require.ErrorContains(t, err, refusal)
		require.NotErrorIs(t, err, lock.ErrNotHeld)
		assert.EqualValues(t, 2, w.evals.Load(), "nothing is sent twice")
	}
}

func TestASlotThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := &wire{answer: func(command []string) string {
		if command[0] == "cluster" {
			return "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n"
		}
		return "-ERR\r\n"
	}}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{w.client(t, redis.Options{}).Options().Addr}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	l := lock.Lease{Request: request("k"), Token: 17}
	assert.Zero(t, s.Lane(l))
	require.ErrorContains(t, unknown(t.Context(), t, s, l, l), "no node of the cluster serves slot")
	_, err := s.Acquire(t.Context(), l.Request)
	require.ErrorContains(t, err, "no node of the cluster serves slot")
	assert.Zero(t, w.evals.Load())
}

func TestAClusterThatHangs(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts and is silent
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
		done <- s.Renew(t.Context(), []lock.Lease{{Request: request("k"), Token: 17}}, out)
	}()
	time.Sleep(50 * time.Millisecond)
	within(t, 0, soon, func() { require.NoError(t, s.Close()) })
	within(t, 0, soon, func() {
		for range cap(done) {
			assert.Error(t, <-done)
		}
	})
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, lock.ErrClosed)
	require.ErrorIs(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), lock.ErrClosed)
}

func TestTheSlotsAsTheUserGivesThem(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	addr := shared.Server(t).Addr() // which knows nothing of clusters
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
		if asked.Add(1) == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	l := acquire(t, s, request("k"))
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
}

// TestThatNobodyServesIsNotBelieved: or else all nodes would be forgotten, and those
// that wait need one to listen to.
func TestThatNobodyServesIsNotBelieved(t *testing.T) {
	t.Parallel()
	addr := shared.Server(t).Addr()
	all := []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}
	for name, none := range map[string][]redis.ClusterSlot{
		"no slots": nil, "no nodes": {{End: slotCount - 1}}, "no address": {{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: ":1"}}}},
	} {
		var told atomic.Pointer[[]redis.ClusterSlot]
		told.Store(&all)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return *told.Load(), nil
		}})
		s := newStore(t, rdb, nil)
		l := acquire(t, s, request("k"))
		told.Store(&none)
		require.ErrorContains(t, s.cluster.read(), "no slot whose master is known", name)
		assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l), name)
		s.cluster.mu.Lock()
		assert.True(t, s.cluster.nodes[addr].gone.IsZero(), name)
		s.cluster.mu.Unlock()
		require.NoError(t, s.Release(t.Context(), l))
		require.NoError(t, rdb.Close())
	}
}

// TestANodeThatServesAgainIsKept, though a teller that has not heard of that names another.
func TestANodeThatServesAgainIsKept(t *testing.T) {
	t.Parallel()
	back := shared.Server(t).Addr()
	w := &wire{answer: func([]string) string { return "-MOVED 1 " + back + "\r\n" }}
	other := w.client(t, redis.Options{}).Options().Addr
	var master atomic.Pointer[string]
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: *master.Load()}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	c := s.cluster
	for _, m := range []*string{&back, &other} {
		master.Store(m)
		require.NoError(t, c.read())
	}
	n := c.node(back)
	c.mu.Lock()
	require.False(t, n.gone.IsZero())
	n.gone = time.Now().Add(-2 * forgetAfter)
	c.mu.Unlock()

	l := acquire(t, s, request("k")) // is sent there
	require.NoError(t, c.read())
	require.NoError(t, n.rdb.Ping(t.Context()).Err(), "it is in use")
	assert.Equal(t, []renewal.Outcome{renewal.Renewed}, renew(t, s, l))
}

// TestANodeThatRefusesToTellIsNoSuspect: it has answered. A server behind Sentinel knows nothing
// of clusters, and would be asked each second for ever.
func TestANodeThatRefusesToTellIsNoSuspect(t *testing.T) {
	t.Parallel()
	addr := shared.Server(t).Addr()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
	}})
	defer rdb.Close()
	s := newStore(t, rdb, nil)
	acquire(t, s, request("k"))
	c := s.cluster
	c.suspect(c.node(addr))
	idle := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refresh == nil
	}
	require.Eventually(t, idle, soon, time.Millisecond)
	assert.False(t, c.node(addr).suspect.Load())
}

// TestWhoGoesSuspectsNobody: a request that is cancelled tells nothing of the node.
func TestWhoGoesSuspectsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const addr = "127.0.0.1:1"
		network := newPipes()
		grant, hang := network.answer, make(chan struct{})
		var hangs atomic.Bool
		network.answer = func(command []string) string {
			if hangs.Load() {
				<-hang
			}
			return grant(command)
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Dialer: network.dial, Protocol: 2,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
			},
		})
		s, err := New(rdb, nil)
		require.NoError(t, err)
		acquire(t, s, request("first"))
		hangs.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, request("k")) // alone
			failed <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		assert.False(t, s.cluster.node(addr).suspect.Load())
		close(hang)
		require.NoError(t, s.Close())
		require.NoError(t, rdb.Close())
		network.conns.Wait()
	})
}
