package redisstore

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
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

// wired returns a store whose server sends the same reply to all scripts.
func wired(t testing.TB, answer string) (*Store, *testredis.Wire) {
	w := &testredis.Wire{Answer: func([]string) string { return answer }}
	return newStore(t, w.Client(t, redis.Options{}), &Options{Timeout: time.Second}), w
}

func TestAnErrorReplyLeavesTheOutcomeUnknown(t *testing.T) {
	for _, refusal := range []string{
		"LOADING Redis is loading the dataset in memory",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "CLUSTERDOWN The cluster is down", "TRYAGAIN Multiple keys request during rehashing of slot",
		"CROSSSLOT Keys in request don't hash to the same slot", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"MISCONF Redis is configured to save RDB snapshots", "NOREPLICAS Not enough good replicas to write.", "NOPERM this user has no permissions",
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair", "ERR max number of clients reached", "UNKILLABLE x", "ERR", "",
	} {
		t.Run(strings.SplitN(refusal, " ", 2)[0], func(t *testing.T) {
			s, w := wired(t, "-"+refusal+"\r\n")
			l := driver.Lease{Request: request("k"), Token: 17}
			err := unknown(t.Context(), t, s, l)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			_, err = s.Acquire(t.Context(), l.Request)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			require.NotErrorIs(t, err, driver.ErrNotAcquired)
			err = s.Release(t.Context(), l)
			require.ErrorContains(t, err, strings.TrimSuffix(refusal, "."))
			require.NotErrorIs(t, err, driver.ErrNotHeld)
			assert.EqualValues(t, 3, w.Evals.Load(), "no request is sent twice")
		})
	}
}

// The server pays for each key and each argument of a script. Calls are used again, with other keys.
func TestRequestsHaveNoKeyOrArgumentThatIsNotNeeded(t *testing.T) {
	var words []string
	w := &testredis.Wire{Answer: func(command []string) string {
		if len(command) > 2 && command[0] == "evalsha" {
			words = command[2:]
			return "$1\r\n7\r\n"
		}
		return "-ERR\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{}), &Options{Prefix: "p:"})
	r := driver.Request{Key: "k", Owner: "a:1", TTL: ttl30}
	keys := []string{"p:{k}", "p:{k}:t", "p:{k}:q", "p:{k}:w", "p:{k}:x:a:1", "p:{k}:s", "p:{k}:m"}
	kept := &driver.Attrs{KeepUntil: time.Now().Add(time.Hour)}
	sends := func(count int, args ...string) {
		t.Helper()
		assert.Equal(t, slices.Concat([]string{strconv.Itoa(count)}, keys[:count], args), words)
	}
	for range 3 {
		_, err := s.Acquire(t.Context(), r)
		require.NoError(t, err)
		sends(5, "a:1", "30000")
		_, err = s.sendAcquire(t.Context(), r, 3*time.Second)
		require.NoError(t, err)
		sends(5, "a:1", "30000", "3000")
		_ = s.Release(t.Context(), driver.Lease{Request: r})
		sends(4, "a:1")
		_ = s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true})
		sends(5, "a:1", "60000")
		_ = s.Release(t.Context(), driver.Lease{Request: driver.Request{Key: "k", Owner: "a:1", TTL: ttl30, Attrs: &driver.Attrs{Metadata: "m"}}})
		sends(7, "a:1{bQ")
		_ = s.Release(t.Context(), driver.Lease{Request: driver.Request{Key: "k", Owner: "a:1", TTL: ttl30, Attrs: kept}})
		require.Len(t, words, 1+4+3)
		assert.Equal(t, []string{"a:1", "0"}, words[5:7])
	}
}

func TestALostReplyCausesNoRetry(t *testing.T) {
	w := &testredis.Wire{Answer: func([]string) string { return "" }}
	s := newStore(t, w.Client(t, redis.Options{MaxRetries: 5}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.Error(t, err)
	assert.EqualValues(t, 1, w.Evals.Load(), "the retries of the user's client have no effect")
	unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17})
	assert.EqualValues(t, 2, w.Evals.Load())
}

func TestAScriptIsSentTwiceAtMost(t *testing.T) {
	s, w := wired(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOSCRIPT")
	assert.EqualValues(t, 2, w.Evals.Load(), "once by digest and once in full")
	require.ErrorContains(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), "NOSCRIPT")
	assert.EqualValues(t, 4, w.Evals.Load())
}

func TestErrorsHideSecretsThatTheServerRepeats(t *testing.T) {
	const password = "sesame-canary"
	for _, words := range []string{"unknown command 'EVALSHA', with args beginning with: ", "wrong: ", "Error running script: "} {
		w := &testredis.Wire{Answer: func(command []string) string {
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}}
		// The server does not know HELLO, so go-redis sends the password with AUTH.
		s := newStore(t, w.Client(t, redis.Options{Username: "u", Password: password}), nil)
		r := request("k")
		_, err := s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: r, Token: 17}), r.Owner, password)

		w.Answer = func(command []string) string {
			if command[0] == "auth" {
				return "+OK\r\n"
			}
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}
		_, err = s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, s.Release(t.Context(), driver.Lease{Request: r}), r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: r, Token: 17}), r.Owner, password)
	}
}

func TestErrorsHideThePasswordOfACredentialsProvider(t *testing.T) {
	const password = "sesame-canary"
	w := &testredis.Wire{Answer: func(command []string) string {
		return "-ERR unknown command '" + command[0] + "', with args beginning with: '" + strings.Join(command[1:], "' '") + "'\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{CredentialsProvider: func() (string, string) { return "u", password }}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "unknown command 'auth'")
	secretless(t, err, password)
	secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), password)
}

func TestErrorsHideTheUser(t *testing.T) {
	w := &testredis.Wire{Answer: func(command []string) string {
		if command[0] == "auth" {
			return "+OK\r\n"
		}
		return "-NOPERM User canary has no permissions to run the 'evalsha' command\r\n"
	}}
	s := newStore(t, w.Client(t, redis.Options{Username: "canary", Password: "sesame"}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOPERM User (secret) has no permissions")
	secretless(t, err, "canary")
	secretless(t, unknown(t.Context(), t, s, driver.Lease{Request: request("k"), Token: 17}), "canary")
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
