package redisstore

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// wire is a server that answers what the test wants, byte by byte.
type wire struct {
	answer func(command []string) string // "" ends the connection
	evals  atomic.Int64                  // EVALSHA and EVAL that came in
	conns  sync.WaitGroup
}

// client lets the wire listen, and returns a client of it.
func (w *wire) client(t testing.TB, o redis.Options) *redis.Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.conns.Go(func() { w.serve(conn) })
		}
	})
	o.Addr = l.Addr().String()
	rdb := redis.NewClient(&o)
	t.Cleanup(func() {
		assert.NoError(t, rdb.Close())
		assert.NoError(t, l.Close())
		w.conns.Wait()
	})
	return rdb
}

func (w *wire) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "-ERR unknown command\r\n"
		if name := strings.ToLower(command[0]); strings.HasPrefix(name, "eval") {
			w.evals.Add(1)
			answer = w.answer(command)
		} else if name != "hello" && name != "client" {
			answer = w.answer(command)
		}
		if answer == "" {
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLen(r, '*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := readLen(r, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		command[i] = string(arg[:size])
	}
	return command, nil
}

func readLen(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || line[0] != kind {
		return 0, io.ErrUnexpectedEOF
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// wired returns a store whose server gives one answer to all scripts.
func wired(t testing.TB, answer string) (*Store, *wire) {
	w := &wire{answer: func([]string) string { return answer }}
	return newStore(t, w.client(t, redis.Options{}), &Options{Timeout: time.Second}), w
}

func TestARefusalOfTheServerTellsNothingOfTheLock(t *testing.T) {
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
			l := lock.Lease{Request: request("k"), Token: 17}
			err := unknown(t.Context(), t, s, l)
			require.ErrorContains(t, err, refusal)
			_, err = s.Acquire(t.Context(), l.Request)
			require.ErrorContains(t, err, refusal)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			err = s.Release(t.Context(), l)
			require.ErrorContains(t, err, refusal)
			require.NotErrorIs(t, err, lock.ErrNotHeld)
			assert.EqualValues(t, 3, w.evals.Load(), "nothing is sent twice")
		})
	}
}

func TestGarbageIsNoSuccess(t *testing.T) {
	for _, garbage := range []string{
		"+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "$2\r\n17\r\n", ":7\r\n", ":-1\r\n", ":99999999999999999999\r\n", "*1\r\n:1\r\n", "*1\r\n$1\r\n1\r\n",
		"*2\r\n:1\r\n:17\r\n", "*2\r\n:1\r\n$-1\r\n", "*2\r\n:1\r\n$20\r\n18446744073709551615\r\n", "*2\r\n+1\r\n$2\r\n17\r\n", "*2\r\n:2\r\n$2\r\n17\r\n",
		"*1\r\n-ERR inside\r\n", "*2\r\n:1\r\n-ERR inside\r\n", "#t\r\n", ",1.5\r\n", "%1\r\n:1\r\n:1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "\r\n", "\x00\xff\r\n",
		"*2\r\n:1", // and no more
	} {
		for _, cut := range []bool{false, true} {
			w := &wire{}
			w.answer = func([]string) string { return garbage }
			if cut {
				w.answer = func([]string) string { return "" }
			}
			s := newStore(t, w.client(t, redis.Options{}), &Options{Timeout: 200 * time.Millisecond})
			l := lock.Lease{Request: request("k"), Token: 17}
			got, err := s.Acquire(t.Context(), l.Request)
			require.Error(t, err, "%q", garbage)
			require.NotErrorIs(t, err, lock.ErrNotAcquired, "%q", garbage)
			assert.Zero(t, got)
			if garbage != ":1\r\n" {
				require.Error(t, s.Release(t.Context(), l), "%q", garbage)
			}
			if garbage == "*1\r\n:1\r\n" && !cut { // that is an answer to a renewal
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			unknown(ctx, t, s, l)
			cancel()
		}
	}
}

func TestAnAnswerThatGetsLostIsNotAskedForAgain(t *testing.T) {
	w := &wire{answer: func([]string) string { return "" }}
	s := newStore(t, w.client(t, redis.Options{MaxRetries: 5}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.Error(t, err)
	assert.EqualValues(t, 1, w.evals.Load(), "though the given client has retries")
	unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17})
	assert.EqualValues(t, 2, w.evals.Load())
}

func TestOnlyTheFailedScriptIsUnknown(t *testing.T) {
	var n atomic.Int64
	w := &wire{answer: func([]string) string {
		if n.Add(1) == 2 {
			return "-ERR of the second\r\n"
		}
		return "*1\r\n:3\r\n"
	}}
	s := newStore(t, w.client(t, redis.Options{}), nil)
	batch := make([]lock.Lease, 3*keysPerScript)
	want := make([]renewal.Outcome, len(batch))
	for i := range batch {
		batch[i] = lock.Lease{Request: request("k"), Token: 17}
		switch {
		case i/keysPerScript == 1:
			want[i] = renewal.Unknown
		case i%keysPerScript == 2:
			want[i] = renewal.Lost
		default:
			want[i] = renewal.Renewed
		}
	}
	out := make([]renewal.Outcome, len(batch))
	err := s.Renew(t.Context(), batch, out)
	require.ErrorContains(t, err, "25 of 75")
	require.ErrorContains(t, err, "of the second")
	assert.Equal(t, want, out)
}

func TestAScriptThatStaysUnknownIsAnError(t *testing.T) {
	s, w := wired(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOSCRIPT")
	assert.EqualValues(t, 2, w.evals.Load(), "by digest and in full, then no more")
	require.ErrorContains(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), "NOSCRIPT")
	assert.EqualValues(t, 4, w.evals.Load())
}

func TestServersThatRepeatSecretsAreNotRepeated(t *testing.T) {
	const password = "sesame-canary"
	for _, words := range []string{"unknown command 'EVALSHA', with args beginning with: ", "wrong: ", "Error running script: "} {
		w := &wire{answer: func(command []string) string {
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}}
		// The password is sent where the server does not know HELLO: AUTH.
		s := newStore(t, w.client(t, redis.Options{Username: "u", Password: password}), nil)
		r := request("k")
		_, err := s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, lock.Lease{Request: r, Token: 17}), r.Owner, password)

		w.answer = func(command []string) string {
			if command[0] == "auth" {
				return "+OK\r\n"
			}
			return "-ERR " + words + strings.Join(command, " ") + "\r\n"
		}
		_, err = s.Acquire(t.Context(), r)
		secretless(t, err, r.Owner, password)
		secretless(t, s.Release(t.Context(), lock.Lease{Request: r}), r.Owner, password)
		secretless(t, unknown(t.Context(), t, s, lock.Lease{Request: r, Token: 17}), r.Owner, password)
	}
}

func TestAPasswordThatOnlyItsProviderKnowsIsNotShown(t *testing.T) {
	const password = "sesame-canary"
	w := &wire{answer: func(command []string) string {
		return "-ERR unknown command '" + command[0] + "', with args beginning with: '" + strings.Join(command[1:], "' '") + "'\r\n"
	}}
	s := newStore(t, w.client(t, redis.Options{CredentialsProvider: func() (string, string) { return "u", password }}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "unknown command 'auth'")
	secretless(t, err, password)
	secretless(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), password)
}

func TestTheUserIsNotShown(t *testing.T) {
	w := &wire{answer: func(command []string) string {
		if command[0] == "auth" {
			return "+OK\r\n"
		}
		return "-NOPERM User canary has no permissions to run the 'evalsha' command\r\n"
	}}
	s := newStore(t, w.client(t, redis.Options{Username: "canary", Password: "sesame"}), nil)
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "NOPERM User (secret) has no permissions")
	secretless(t, err, "canary")
	secretless(t, unknown(t.Context(), t, s, lock.Lease{Request: request("k"), Token: 17}), "canary")
}

func TestACleanErrorKeepsItsKind(t *testing.T) {
	s := &Store{secrets: []string{"lock", ""}} // as short as passwords should not be
	assert.ErrorIs(t, s.clean(redis.ErrNoScript), redis.ErrNoScript)
	assert.ErrorIs(t, s.clean(io.EOF, "owner"), io.EOF)
	assert.NotErrorIs(t, s.clean(redis.Nil), redis.Nil, "an absent reply is one that the script cannot give")
}
